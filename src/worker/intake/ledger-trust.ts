import { isUnavailable } from '../../errors/error.ts';
import type { BegunTask, Ledger } from '../../ledger/ledger.ts';
import { RetryPace } from '../../runtime/backoff.ts';
import type { Runtime } from '../../runtime/runtime.ts';
import { type LetterBeside, readLetterBeside } from '../../ledger/dead-letter.ts';
import type { LedgerReads } from '../../ledger/ledger-reads.ts';
import { type Keyring, NO_KEYS } from '../../task/keyring.ts';
import { errorRecord } from '../run/error-record.ts';
import { type Settlement, buried } from '../run/settlement.ts';

const TRIALS = { baseMs: 250, maxMs: 5_000 };

/**
 * Whether messages may be taken from a broker. A ledger can answer heartbeats and hand out waiting tasks, and still accept
 * nothing new: a Redis whose memory is full. Every message that is taken then has to go back, and quorum queues drop one
 * that came back too often. So only an accepted message proves that the ledger accepts messages.
 *
 *   new ──it could take one──► trusted ──took no message──► doubted ──could take one──► on trial: one message
 *                                 ▲                            ▲                           │      │
 *                                 │                            └──────took it not──────────┘      │
 *                                 └───────────took it, or there was none to try with──────────────┘
 */
export class LedgerTrust {
  readonly #ledger: Pick<Ledger, 'park'>;
  readonly #runtime: Runtime;
  readonly #pace: RetryPace;
  #state: 'new' | 'trusted' | 'doubted' | 'trial' = 'new';
  #tryAt = -Infinity;

  constructor(ledger: Pick<Ledger, 'park'>, runtime: Runtime) {
    this.#ledger = ledger;
    this.#runtime = runtime;
    this.#pace = new RetryPace(runtime, TRIALS, {
      failing: 'the ledger takes no new tasks; messages are left in their queues',
      over: 'the ledger takes new tasks again',
    });
  }

  get isTrusted(): boolean {
    return this.#state === 'trusted';
  }

  /** It has refused something, and accepted nothing since. */
  get isDoubted(): boolean {
    return this.#state === 'doubted' || this.#state === 'trial' || this.#pace.failures > 0;
  }

  /** How long the worker may sleep before it must look again; null: no limit. */
  get maxSleepMs(): number | null {
    if (this.isTrusted || this.#state === 'trial') return null;
    return Math.max(this.#tryAt - this.#runtime.clock.monotonic(), 0);
  }

  /** How many messages may be taken, out of `limit` that could be begun. */
  async allows(limit: number): Promise<number> {
    if (this.#state === 'trusted') return limit;
    if (this.#state === 'trial' || this.#runtime.clock.monotonic() < this.#tryAt) return 0;
    try {
      await this.#ledger.park([]);
    } catch (error) {
      if (!isUnavailable(error)) throw error;
      this.refused(error);
      return 0;
    }
    if (this.#state === 'new') {
      this.took();
      return limit;
    }
    this.#state = 'trial';
    return Math.min(limit, 1);
  }

  /** The ledger has taken messages; or there was none that it could have refused. */
  took(): void {
    this.#state = 'trusted';
    this.#pace.succeeded();
  }

  /** The outcome of a trial does not show whether the ledger accepts messages. */
  unproven(): void {
    if (this.#state === 'trial') this.#state = 'doubted';
  }

  /** The ledger has not taken messages, or reported that it would not. */
  refused(error: unknown): void {
    if (this.#state !== 'new') this.#state = 'doubted';
    this.#tryAt = this.#runtime.clock.monotonic() + this.#pace.failed(error);
  }
}

export interface AcceptAgainDeps {
  readonly ledger: Pick<Ledger, 'park'>;
  readonly reads: Pick<LedgerReads, 'inspect'>;
  readonly runtime: Runtime;
  readonly keyring?: Keyring;
}

/** How long to wait before asking a store that is away again. */
const STORE_RETRY_MS = 1_000;

/**
 * A dead-lettered message that is stored beside the id it came with, and was brought back: it is judged again, and if it may
 * run now the ledger has it under that id before the letter ends. Its age does not count: the operator who brings it back
 * vouches for it. Null: the task is no such letter.
 */
export function acceptAgain(task: BegunTask, deps: AcceptAgainDeps): Promise<Settlement> | null {
  const letter = readLetterBeside(task.envelope);
  if (letter === null) return null;
  return accept(letter, deps).catch((error: unknown): Settlement => {
    deps.runtime.log.warn({ error, task: task.id }, 'a dead letter could not be accepted again');
    if (isUnavailable(error)) return { kind: 'release', delayMs: STORE_RETRY_MS };
    return { kind: 'bury', reason: 'ERR_INVARIANT', error: errorRecord(error) };
  });
}

async function accept(
  { message, isOfLedger }: LetterBeside,
  { ledger, reads, keyring = NO_KEYS }: AcceptAgainDeps,
): Promise<Settlement> {
  const { id, name, queue } = message;
  const refusal = keyring.refusalOf(message);
  if (refusal !== null) return buried('ERR_DIGEST', refusal);
  const stillTaken = (): Settlement =>
    buried('ERR_DIGEST', `another task still has the id ${id}; retry when that is forgotten`);
  // Otherwise its message would be stored under the id of the letter that is about to end.
  if (isOfLedger && (await reads.inspect(id)) !== null) return stillTaken();
  // If another task has the id, the ledger stores the message as a separate letter.
  await ledger.park([{ envelope: message, delayMs: null }]);
  if (isOfLedger) {
    const found = await reads.inspect(id);
    if (found !== null && (found.name !== name || found.queue !== queue)) return stillTaken();
  }
  const why = `accepted again, as ${id}`;
  return { kind: 'commit', outcome: { kind: 'discarded', why }, value: 'null' };
}
