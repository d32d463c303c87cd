import type { Broker, Delivery } from '../broker/broker.ts';
import { sendEntries } from '../ledger/carry-out.ts';
import { checkPart, linkedPart, type FollowDeps } from '../ledger/follow-up.ts';
import type { AfterEntry, BuryItem, ChordPartEntry, Ledger } from '../ledger/ledger.ts';
import { undecodable } from '../ledger/undecodable.ts';
import { sleep } from '../runtime/clock.ts';
import type { Runtime } from '../runtime/runtime.ts';
import { Wakeable } from '../runtime/wakeable.ts';
import { readToldPart, refusalOfPart } from '../task/chord-link.ts';
import type { Envelope } from '../task/envelope.ts';
import { NO_KEYS, type Keyring } from '../task/keyring.ts';
import type { Redact } from '../task/redact.ts';

export interface ChordPartsDeps {
  readonly broker: Pick<Broker, 'publish' | 'reply' | 'take' | 'ack' | 'giveBack' | 'onReady'>;
  readonly ledger: Pick<Ledger, 'joinChord' | 'closeChord' | 'bury'>;
  /** Where they are told. */
  readonly queue: string;
  readonly runtime: Runtime;
  readonly redact?: Redact | null;
  readonly keyring?: Keyring;
}

/** Messages of one look. */
const CHUNK = 100;
/** A hint may be lost; and after trouble this long is waited. */
const IDLE_MS = 1_000;

/**
 * Counts the parts of chords that workers of Python ran. Each is told by a message (`task/chord-link.ts`), which is
 * acknowledged when the part is counted and what follows from it was confirmed: whoever dies before that leaves it to
 * be delivered again, and a part counts once however often it is told.
 */
export class ChordParts {
  readonly #deps: ChordPartsDeps;

  constructor(deps: ChordPartsDeps) {
    this.#deps = deps;
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

  /** What cannot be done now goes back, and is delivered again. */
  async #look(): Promise<'parts' | 'nothing' | 'trouble'> {
    const { broker, queue, runtime } = this.#deps;
    let taken: readonly Delivery[] = [];
    try {
      taken = await broker.take([queue], CHUNK);
      if (taken.length === 0) return 'nothing';
      const settled = await this.#settle(taken);
      await runtime.faultPoint('chord.told-not-acked');
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

  /** Those that nobody has to be told of again. */
  async #settle(taken: readonly Delivery[]): Promise<readonly Delivery[]> {
    const { broker, ledger } = this.#deps;
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
    const sent = await sendEntries([...parts.keys()], { broker, ledger, follow: this.#follow() });
    return [...settled, ...sent.flatMap(entry => parts.get(entry) ?? [])];
  }

  #read({ message }: Delivery): ChordPartEntry | BuryItem {
    if ('raw' in message) return undecodable(message);
    try {
      const refusal = refusalOfPart(message, this.#deps.keyring ?? NO_KEYS);
      if (refusal !== null) return letter(message, 'ERR_DIGEST', refusal);
      const { place, taskId, rootId, result } = readToldPart(message);
      const parent = { id: taskId, rootId, queue: message.queue, deadlineMs: null };
      const part = linkedPart(place, taskId, result, parent);
      checkPart(part, this.#follow());
      return part;
    } catch (error) {
      return letter(message, 'ERR_UNDECODABLE', (error as Error).message);
    }
  }

  #follow(): FollowDeps {
    const { runtime, broker, redact = null, keyring = NO_KEYS } = this.#deps;
    const answers = broker.reply !== undefined;
    return { nowMs: runtime.clock.now(), queueOf: () => null, redact, keyring, answers };
  }
}

function letter(envelope: Envelope, reason: string, message: string): BuryItem {
  return { kind: 'message', envelope, reason, error: { type: reason, message, traceback: '' } };
}
