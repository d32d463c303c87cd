import { DestinationGuard } from '../broker/destination-guard.ts';
import type { Broker } from '../broker/broker.ts';
import { isUnavailable } from '../errors/error.ts';
import { sendEntries, unsentLetter, type Undone } from '../ledger/carry-out.ts';
import { routing, type Destinations } from '../ledger/destinations.ts';
import { reportBuried } from '../ledger/dead-letter.ts';
import type { UnreadableEntry } from '../ledger/follow-up-log.ts';
import type {
  AfterEntry,
  BuryItem,
  DeferredEntry,
  WorkerLedger,
  WorkflowLedger,
} from '../ledger/ledger.ts';
import { undecodable } from '../ledger/undecodable.ts';
import type { ResultStore } from '../result/result-store.ts';
import { backoffMs, type BackoffPolicy } from '../runtime/backoff.ts';
import type { Runtime } from '../runtime/runtime.ts';
import { toBytes } from '../task/json.ts';
import { NO_KEYS, type Keyring } from '../task/keyring.ts';
import type { Redact } from '../task/redact.ts';

export interface FollowUpRepeaterDeps {
  readonly ledger: WorkflowLedger & Pick<WorkerLedger, 'bury'>;
  readonly broker: Broker;
  readonly results?: ResultStore;
  /** Where messages may have us write. Left out: anywhere. */
  readonly destinations?: Destinations;
  readonly runtime: Runtime;
  readonly settings: {
    /** How old an unfinished follow-up must be before it is repeated. */
    readonly afterDelayMs: number;
    readonly redact?: Redact | null;
    readonly keyring?: Keyring;
  };
}

/** Entries of one page, and pages of one pass: the rest is due already, and comes with the next pass. */
const PAGE = 100;
const MOST_PAGES = 20;
/** How long a confirm may take. Nothing else waits for this loop. */
const LIMIT_MS = 5_000;
/** Refusals before a follow-up is given up: the waits between them add up to half an hour. */
const MOST_ATTEMPTS = 14;
const BACKOFF: BackoffPolicy = { baseMs: 1_000, maxMs: 300_000, jitter: 'tenth' };
/** The wait after an outage, which costs no attempt. */
const OUTAGE_MS = 2_000;

/**
 * Carries out follow-ups of ended tasks that no worker has carried out.
 *
 *   due ──sent──► gone
 *    ▲ │
 *    │ ├──refused: later, a little longer each time──┐
 *    │ ├──no answer: soon                            │
 *    └─┴─────────────────────────────────────────────┘
 *      └──refused too often, or forbidden──► a dead letter with its bytes
 *
 * An entry that was tried is due later than one that was not, so that the last of many is reached however many come first.
 */
export class FollowUpRepeater {
  readonly #deps: FollowUpRepeaterDeps;
  readonly #guard: DestinationGuard;

  constructor(deps: FollowUpRepeaterDeps) {
    this.#deps = deps;
    this.#guard = new DestinationGuard(deps.broker, deps.runtime.clock, {
      traces: deps.runtime.traces,
    });
  }

  async look(): Promise<void> {
    const { ledger, runtime, settings } = this.#deps;
    for (let page = 0; page < MOST_PAGES; page++) {
      const entries = await ledger.after.list(settings.afterDelayMs, PAGE);
      if (entries.length === 0) return;
      runtime.log.info({ entries: entries.length }, 'repeating follow-ups');
      await this.#carryOut(entries);
    }
  }

  async #carryOut(entries: readonly AfterEntry[]): Promise<void> {
    const { ledger, results, destinations, runtime } = this.#deps;
    const deps = {
      guard: this.#guard,
      limitMs: LIMIT_MS,
      ledger,
      follow: this.#follow(),
      ...(results ? { results } : {}),
      ...(destinations ? { destinations } : {}),
    };
    const { done, undone } = await sendEntries(entries, deps);
    await ledger.after.strike(done.map(({ key }) => key));
    const spent = undone.filter(one => isSpent(one));
    const kept = new Set(await this.#giveUp(spent));
    const deferred = undone.filter(one => !kept.has(one)).map(one => this.#later(one));
    await ledger.after.defer(deferred);
    const [first] = undone;
    if (first === undefined) return;
    const counts = { deferred: deferred.length, given_up: kept.size };
    runtime.log.warn({ ...counts, error: first.why }, 'follow-ups could not be sent');
  }

  #later({ entry, kind, retryAfterMs }: Undone): DeferredEntry {
    const { key, attempts = 0 } = entry;
    const random = this.#deps.runtime.random.next();
    if (kind === 'unavailable')
      return {
        key,
        delayMs: Math.max(retryAfterMs ?? 0, OUTAGE_MS) * (1 + random / 10),
        isAttempt: false,
      };
    return { key, delayMs: backoffMs(BACKOFF, attempts, random), isAttempt: true };
  }

  /**
   * A message may have ten thousand follow-ups that we forbid: they are buried by the page, so that the entries behind them
   * are not late. Returns those that are dead letters now; one that no store takes blocks no other, and is tried again.
   */
  async #giveUp(spent: readonly Undone[]): Promise<readonly Undone[]> {
    if (spent.length === 0) return [];
    try {
      await this.#bury(spent);
      return spent;
    } catch (error) {
      if (isUnavailable(error)) throw error;
      if (spent.length > 1) {
        const halves = [spent.slice(0, spent.length >> 1), spent.slice(spent.length >> 1)];
        return [await this.#giveUp(halves[0] ?? []), await this.#giveUp(halves[1] ?? [])].flat();
      }
      const key = spent[0]?.entry.key;
      this.#deps.runtime.log.warn({ key, error }, 'the store refuses the letter of a follow-up');
      return [];
    }
  }

  /** Letters first: a process that dies in between repeats this, and the same letter twice is one. */
  async #bury(spent: readonly Undone[]): Promise<void> {
    const { ledger, runtime } = this.#deps;
    const letters = spent.flatMap(one => this.#lettersOf(one));
    if (letters.length > 0) await ledger.bury(letters);
    await ledger.after.strike(spent.map(({ entry }) => entry.key));
    for (const { entry, kind, why } of spent)
      runtime.log.error({ key: entry.key, kind, error: why }, 'a follow-up is given up');
    reportBuried(letters, runtime.emit);
  }

  /** Under its key: its task is unknown. */
  #unreadable({ key, unreadable: raw, why }: UnreadableEntry): BuryItem {
    const message = { raw, queue: 'unknown', name: 'unknown', headers: { key }, why };
    return undecodable(message, this.#deps.settings.redact ?? null);
  }

  #lettersOf(undone: Undone): readonly BuryItem[] {
    const { entry, kind, why } = undone;
    if ('unreadable' in entry) return [this.#unreadable(entry)];
    const letters = undone.refused.flatMap(item => unsentLetter(item, undone) ?? []);
    if (kind !== 'broken' || !('part' in entry)) return letters;
    const raw = toBytes(JSON.stringify(entry));
    const message = { raw, queue: entry.parent.queue, why, name: 'celery.chord' };
    return [...letters, undecodable(message, this.#deps.settings.redact ?? null)];
  }

  #follow(): Parameters<typeof sendEntries>[1]['follow'] {
    const { runtime, settings, destinations } = this.#deps;
    return {
      nowMs: runtime.clock.now(),
      queueOf: () => null,
      ...routing(destinations),
      redact: settings.redact ?? null,
      keyring: settings.keyring ?? NO_KEYS,
      answers: this.#guard.answers,
      countsWithCelery: this.#deps.ledger.countsWithCelery === true,
      countsUnsized: this.#deps.ledger.countsUnsized === true,
    };
  }
}

/** Trying again does not help if we forbid it. */
function isSpent({ entry, kind }: Undone): boolean {
  if (kind === 'unavailable') return false;
  if ('unreadable' in entry) return true;
  return kind === 'forbidden' || (entry.attempts ?? 0) + 1 >= MOST_ATTEMPTS;
}
