import { DestinationGuard } from '../../broker/destination-guard.ts';
import type { Broker } from '../../broker/broker.ts';
import { sendEntries } from '../../ledger/carry-out.ts';
import { type Destinations, routing } from '../../ledger/destinations.ts';
import { type FollowDeps, afterDone, afterEnded, isFollowed } from '../../ledger/follow-up.ts';
import {
  type AfterEntry,
  type BegunTask,
  type FollowUp,
  type Ledger,
  type WorkerLedger,
  type WorkflowLedger,
  endedKey,
} from '../../ledger/ledger.ts';
import type { ResultStore } from '../../result/result-store.ts';
import { type Runtime, sleep } from '../../runtime/runtime.ts';
import type { Reply } from '../../wire/reply.ts';
import { isOutlastError } from '../../errors/error.ts';
import { type Keyring, NO_KEYS } from '../../task/keyring.ts';
import type { Redact } from '../../task/redact.ts';
import { BUILTIN_NAMES } from '../celery-tasks.ts';
import type { Handler } from '../handler.ts';
import { type Settlement, buried } from './settlement.ts';

export interface FollowUpSenderDeps {
  readonly broker: Pick<Broker, 'publish' | 'reply' | 'hasQueues'>;
  readonly ledger: WorkflowLedger & Pick<WorkerLedger, 'bury'>;
  readonly runtime: Runtime;
  readonly results?: ResultStore;
  /** The destinations that messages may name. Left out: any. */
  readonly destinations?: Destinations;
}

/** Younger than what a resurrector considers forgotten. */
const FOLLOW_WITHIN_MS = 2_000;
/** How long a publisher confirm may take. */
const LIMIT_MS = 2_000;
/** The limit of entries in flight; beyond it a resurrector sends what is stored. */
const MOST_UNDER_WAY = 1_000;
/** How long a worker that leaves waits for the rest. */
const LEAVE_MS = 5_000;
/** After this long without anything to send, it is unknown whether sending works. */
const KNOWN_MS = 60_000;
/** The same failure is not logged for every task. */
const LOG_EVERY_MS = 10_000;

/**
 * Sends the follow-ups of one worker's runs, in the background: a run is over when it is committed, and its slot is free
 * whatever the broker does. Nothing depends on this: all follow-ups are stored with the commit, and a resurrector sends those
 * that are not confirmed in time.
 */
export class FollowUpSender {
  readonly #deps: FollowUpSenderDeps;
  readonly #guard: DestinationGuard;
  readonly #sending = new Set<Promise<void>>();
  #underWay = 0;
  #loggedAt = -Infinity;
  /** Since when sending has failed, and when it was last tried. */
  #unsentSince: number | null = null;
  #triedAt = -Infinity;

  constructor(deps: FollowUpSenderDeps) {
    this.#deps = deps;
    this.#guard = new DestinationGuard(deps.broker, deps.runtime.clock, {
      traces: deps.runtime.traces,
    });
  }

  /** For how long follow-ups could not be sent, so that resurrectors have to; null: they can be, or there were none. */
  get unsentMs(): number | null {
    const now = this.#deps.runtime.clock.monotonic();
    if (this.#unsentSince === null || now - this.#triedAt > KNOWN_MS) return null;
    return now - this.#unsentSince;
  }

  /** `settledAt` is when they were stored. */
  send(entries: readonly AfterEntry[], settledAt: number, follow: FollowDeps): void {
    const { length } = entries;
    if (this.#underWay > 0 && this.#underWay + length > MOST_UNDER_WAY) {
      this.#note(false);
      return this.#logUnsent('too many are under way');
    }
    this.#underWay += length;
    const sending = this.#carryOut(entries, settledAt, follow).finally(() => {
      this.#underWay -= length;
      this.#sending.delete(sending);
    });
    this.#sending.add(sending);
  }

  /** Notifies a sender that waits for its result; waits for the confirm no longer than the limit. */
  async reply(reply: Reply): Promise<void> {
    const judged = this.#deps.destinations?.judgeReply(reply.replyTo);
    if (judged?.kind === 'refused') return this.#logUnsent(`${judged.destination}: ${judged.why}`);
    await this.#guard.reply([reply], LIMIT_MS);
  }

  /** Resolves when nothing is being sent any more, or after a limit. */
  async over(): Promise<void> {
    const ended = new AbortController();
    const all = Promise.all(this.#sending).then(() => ended.abort());
    await Promise.race([all, sleep(this.#deps.runtime.clock, LEAVE_MS, ended.signal)]);
  }

  async #carryOut(
    entries: readonly AfterEntry[],
    settledAt: number,
    follow: FollowDeps,
  ): Promise<void> {
    const { ledger, runtime, results, destinations } = this.#deps;
    try {
      await runtime.faultPoint('worker.committed-not-followed');
      // A process that slept since leaves it to the resurrector: what that has sent may be done and forgotten by now.
      if (runtime.clock.monotonic() - settledAt > FOLLOW_WITHIN_MS) return;
      const { done, undone } = await sendEntries(entries, {
        guard: this.#guard,
        limitMs: LIMIT_MS,
        ledger,
        follow,
        ...(results ? { results } : {}),
        ...(destinations ? { destinations } : {}),
      });
      await ledger.after.strike(done.map(({ key }) => key));
      const isAway = undone.some(({ kind }) => kind === 'unavailable');
      // A refused entry was sent: the refusal is the destination's answer.
      if (isAway || done.length > 0) this.#note(!isAway);
      if (undone[0]) this.#logUnsent(undone[0].why);
    } catch (error) {
      this.#note(false);
      this.#logUnsent(error);
    }
  }

  #note(isSent: boolean): void {
    this.#triedAt = this.#deps.runtime.clock.monotonic();
    if (isSent) this.#unsentSince = null;
    else this.#unsentSince ??= this.#triedAt;
  }

  #logUnsent(error: unknown): void {
    const { clock, log } = this.#deps.runtime;
    if (clock.monotonic() - this.#loggedAt < LOG_EVERY_MS) return;
    this.#loggedAt = clock.monotonic();
    log.warn({ error }, 'follow-ups were not sent; a resurrector repeats them');
  }
}

interface Deps {
  readonly broker: Pick<Broker, 'reply'>;
  readonly ledger: Pick<Ledger, 'countsWithCelery' | 'countsUnsized'>;
  readonly runtime: Pick<Runtime, 'clock'>;
  readonly handlers: ReadonlyMap<string, Handler>;
  readonly redact: Redact | null;
  readonly keyring?: Keyring;
  readonly destinations?: Destinations;
  /** Headers of the run, which what follows continues. Left out: nothing is traced. */
  readonly trace?: Readonly<Record<string, string>>;
}

const NOTHING: readonly never[] = [];

export interface PlannedEnd {
  readonly settlement: Settlement;
  readonly followUps: readonly FollowUp[];
}

/** The settlement of a run, and the follow-ups that its commit writes: a run with more than may be sent is buried. */
export function planFollowUps(settlement: Settlement, task: BegunTask, deps: Deps): PlannedEnd {
  try {
    return { settlement, followUps: followUpsOf(settlement, task, deps) };
  } catch (error) {
    if (!isOutlastError(error, 'ERR_FOLLOW_UPS_TOO_LARGE')) throw error;
    return { settlement: buried(error.code, error.message), followUps: NOTHING };
  }
}

function followUpsOf(
  settlement: Settlement,
  { envelope, epoch }: BegunTask,
  deps: Deps,
): readonly FollowUp[] {
  if (settlement.kind !== 'commit' || !hasFollowers(envelope, deps)) return NOTHING;
  const { outcome, value } = settlement;
  return outcome.kind === 'done'
    ? afterDone(envelope, value, followDeps(deps))
    : afterEnded({ envelope, how: 'discarded', epoch, why: outcome.why }, followDeps(deps));
}

/** The follow-up that the ledger has written by itself, because the task is dead. */
export function owedOfDeath(
  settlement: Settlement,
  { envelope }: BegunTask,
  epoch: number,
  deps: Deps,
): readonly AfterEntry[] {
  const isDead =
    settlement.kind === 'bury' || (settlement.kind === 'fail' && settlement.delayMs === null);
  if (!isDead || settlement.reason === 'ERR_DIGEST' || !hasFollowers(envelope, deps))
    return NOTHING;
  const { error } = settlement;
  return [{ key: endedKey(envelope.id, epoch), ended: { envelope, how: 'dead', epoch, error } }];
}

export function followDeps(deps: Deps): FollowDeps {
  const { runtime, handlers, redact, broker, keyring, ledger, destinations, trace } = deps;
  return {
    nowMs: runtime.clock.now(),
    // Celery's own tasks are routed as any other.
    queueOf: name =>
      BUILTIN_NAMES.has(name) ? null : (handlers.get(name)?.task.contract.queue ?? null),
    redact,
    keyring: keyring ?? NO_KEYS,
    answers: broker.reply !== undefined,
    countsWithCelery: ledger.countsWithCelery === true,
    countsUnsized: ledger.countsUnsized === true,
    ...routing(destinations),
    ...(trace === undefined ? {} : { trace }),
  };
}

function hasFollowers(envelope: BegunTask['envelope'], { broker }: Deps): boolean {
  return isFollowed(envelope, { answers: broker.reply !== undefined });
}
