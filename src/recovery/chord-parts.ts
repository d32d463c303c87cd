import type { Broker, Delivery } from '../broker/broker.ts';
import { DestinationGuard } from '../broker/destination-guard.ts';
import { type Undone, sendEntries, unsentLetter } from '../ledger/carry-out.ts';
import { type Destinations, routing } from '../ledger/destinations.ts';
import { linkedPart } from '../ledger/chord-part-entry.ts';
import { type FollowDeps, checkPart } from '../ledger/follow-up.ts';
import type { AfterEntry, BuryItem, ChordPartEntry, Ledger } from '../ledger/ledger.ts';
import { letterBeside } from '../ledger/dead-letter.ts';
import { undecodable } from '../ledger/undecodable.ts';
import { type Runtime, sleep } from '../runtime/runtime.ts';
import { Wakeable } from '../runtime/wakeable.ts';
import { readReportedPart, refusalOfPart } from '../task/chord-link.ts';
import { type Keyring, NO_KEYS } from '../task/keyring.ts';
import type { Redact } from '../task/redact.ts';
import { withCopies } from '../task/digest.ts';

export interface ChordPartsDeps {
  readonly broker: Pick<
    Broker,
    'publish' | 'reply' | 'hasQueues' | 'take' | 'ack' | 'giveBack' | 'onReady'
  >;
  readonly ledger: Pick<Ledger, 'joinChord' | 'closeChord' | 'bury' | 'recordNeverSent'>;
  /** The queue on which they are reported. */
  readonly queue: string;
  readonly runtime: Runtime;
  readonly redact?: Redact | null;
  readonly keyring?: Keyring;
  /** Where messages may have us write. Left out: anywhere. */
  readonly destinations?: Destinations;
}

/** Messages of one look. */
export const CHORD_PARTS_AT_ONCE = 100;
/** A hint may be lost; also the wait after trouble. */
const IDLE_MS = 1_000;
/** How long a confirm may take. */
const LIMIT_MS = 5_000;

/**
 * Counts the parts of chords that Python workers ran. Each is reported by a message (`task/chord-link.ts`), which is
 * acknowledged when the part is counted and its follow-ups are confirmed. If the process dies before that, the message is
 * delivered again; a part counts once however often it is reported.
 */
export class ChordParts {
  readonly #deps: ChordPartsDeps;
  readonly #guard: DestinationGuard;

  constructor(deps: ChordPartsDeps) {
    this.#deps = deps;
    this.#guard = new DestinationGuard(deps.broker, deps.runtime.clock, {
      traces: deps.runtime.traces,
    });
  }

  /** Counts until the signal aborts. */
  async run(signal: AbortSignal): Promise<void> {
    const { broker, queue, runtime } = this.#deps;
    const wake = new Wakeable(runtime.clock);
    const leave = broker.onReady([queue], wake.hint);
    try {
      while (!signal.aborted) {
        const found = await this.#look();
        if (found === 'nothing') await wake.sleep(IDLE_MS, signal);
        // No hint cuts this short: what was given back is delivered at once.
        if (found === 'trouble') await sleep(runtime.clock, IDLE_MS, signal);
      }
    } finally {
      leave();
    }
  }

  /** Messages that cannot be handled now go back, and are delivered again. */
  async #look(): Promise<'parts' | 'nothing' | 'trouble'> {
    const { broker, queue, runtime } = this.#deps;
    let taken: readonly Delivery[] = [];
    try {
      taken = await broker.take([queue], CHORD_PARTS_AT_ONCE);
      if (taken.length === 0) return 'nothing';
      const settled = await this.#settle(taken);
      await runtime.faultPoint('chord.reported-not-acked');
      await broker.ack(settled);
      taken = taken.filter(delivery => !settled.includes(delivery));
      if (taken.length > 0) await broker.giveBack(taken);
      return taken.length === 0 ? 'parts' : 'trouble';
    } catch (error) {
      runtime.log.warn({ error }, 'parts of chords cannot be counted now');
      await broker.giveBack(taken).catch(() => undefined);
      return 'trouble';
    }
  }

  /** Returns the messages that need not be delivered again. */
  async #settle(taken: readonly Delivery[]): Promise<readonly Delivery[]> {
    const { ledger } = this.#deps;
    const parts = new Map<AfterEntry, Delivery>();
    const settled: Delivery[] = [];
    for (const delivery of taken) {
      const read = this.#read(delivery);
      if ('part' in read) {
        parts.set(read, delivery);
      } else {
        await ledger.bury([read]);
        settled.push(delivery);
      }
    }
    const { destinations } = this.#deps;
    const { done, undone } = await sendEntries([...parts.keys()], {
      guard: this.#guard,
      limitMs: LIMIT_MS,
      ledger,
      follow: this.#follow(),
      ...(destinations ? { destinations } : {}),
    });
    const given = await Promise.all(undone.map(one => this.#giveUp(one)));
    return [...settled, ...[...done, ...given.flat()].flatMap(entry => parts.get(entry) ?? [])];
  }

  /** A refused one becomes a dead letter, which can be sent again: the message would only come back at once, for ever. */
  async #giveUp(undone: Undone): Promise<readonly AfterEntry[]> {
    const { ledger, runtime } = this.#deps;
    const { entry, kind, why } = undone;
    if (kind === 'unavailable' || kind === 'broken') return [];
    const letters = undone.refused.flatMap(item => unsentLetter(item, undone) ?? []);
    if (letters.length > 0) await ledger.bury(letters);
    runtime.log.error({ key: entry.key, kind, error: why }, 'the body of a chord is not sent');
    return [entry];
  }

  #read({ message }: Delivery): ChordPartEntry | BuryItem {
    const { redact = null } = this.#deps;
    if ('raw' in message) return undecodable(message, redact);
    try {
      const refusal = refusalOfPart(message, this.#deps.keyring ?? NO_KEYS);
      // Stored beside the id it names: any sender may have chosen that.
      if (refusal !== null) return letterBeside(withCopies(message, redact), 'ERR_DIGEST', refusal);
      const { position, taskId, rootId, result } = readReportedPart(message);
      const parent = { id: taskId, rootId, queue: message.queue, deadlineMs: null };
      const part = linkedPart(position, taskId, result, parent);
      checkPart(part, this.#follow());
      return part;
    } catch (error) {
      const why = redact === null ? (error as Error).message : 'it is not a part of a chord';
      return letterBeside(withCopies(message, redact), 'ERR_UNDECODABLE', why);
    }
  }

  #follow(): FollowDeps {
    const { runtime, broker, redact = null, keyring = NO_KEYS, destinations } = this.#deps;
    return {
      nowMs: runtime.clock.now(),
      queueOf: () => null,
      ...routing(destinations),
      redact,
      keyring,
      answers: broker.reply !== undefined,
    };
  }
}
