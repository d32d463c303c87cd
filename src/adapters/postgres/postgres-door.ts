import { isOutlastError, isUnavailable, outlastError } from '../../errors/error.ts';
import type { RunRef } from '../../ledger/ledger.ts';
import type { TransactionAdapter } from '../../outbox/transaction-adapter.ts';
import type { FaultPoint } from '../../runtime/fault-point.ts';
import type { EffectDoor } from '../../worker/door.ts';
import { isConnectionLost, sqlStateOf, translatePgError } from './pg-errors.ts';
import { SQL } from './sql.generated.ts';

/** Serialization failures and deadlocks start over; they are common enough to expect and rare enough to end. */
const MAX_STARTS = 10;
const START_OVER: ReadonlySet<unknown> = new Set(['40001', '40P01']);
const LOCK_TIMEOUT = '55P03';

/**
 * The effect-once door where ledger and effects are one PostgreSQL: the task row itself is the fence. Its lock is held
 * until the user's transaction ends, so nobody can take the task away between the check and the effect.
 */
export class PostgresDoor<Tx> implements EffectDoor<Tx> {
  readonly #adapter: TransactionAdapter<Tx>;
  readonly #faultPoint: FaultPoint;

  constructor(adapter: TransactionAdapter<Tx>, faultPoint: FaultPoint) {
    this.#adapter = adapter;
    this.#faultPoint = faultPoint;
  }

  async pass(
    run: RunRef,
    step: string,
    fn: (tx: Tx) => Promise<Uint8Array | null>,
  ): Promise<Uint8Array | null> {
    for (let start = 1; ; start++) {
      let own: unknown;
      const effect = async (tx: Tx): Promise<Uint8Array | null> => {
        try {
          return await fn(tx);
        } catch (error) {
          own = error;
          throw error;
        }
      };
      try {
        return await this.#adapter.transaction(tx => this.#inside(tx, run, step, effect));
      } catch (error) {
        if (START_OVER.has(sqlStateOf(error)) && start < MAX_STARTS) continue;
        if (isConnectionLost(error)) throw translatePgError(error);
        throw error === own ? asThrown(error) : error;
      }
    }
  }

  async #isElsewhere(tx: Tx, run: RunRef): Promise<boolean> {
    return (await this.#adapter.execute(tx, SQL.doorKnown, [run.id])).length === 0;
  }

  async #inside(
    tx: Tx,
    run: RunRef,
    step: string,
    fn: (tx: Tx) => Promise<Uint8Array | null>,
  ): Promise<Uint8Array | null> {
    const execute = (text: string, values: readonly (string | null)[]) =>
      this.#adapter.execute(tx, text, values);
    const epoch = String(run.epoch);
    const [before] = await execute(SQL.doorLimitWait, []);
    // A stopped process must not hold the fence for ever: the server ends what its owner has forgotten.
    if (this.#adapter.endsIdleTransactions) await execute(SQL.doorLimitIdle, []);
    const fenced = await execute(SQL.doorFence, [run.id, epoch, run.run]).catch(
      (error: unknown) => {
        throw sqlStateOf(error) === LOCK_TIMEOUT ? lockBusy(run, error) : error;
      },
    );
    if (fenced.length === 0) throw (await this.#isElsewhere(tx, run)) ? elsewhere(run) : stale(run);
    // The user's own statements wait as long as the user has decided.
    await execute(SQL.doorRestoreWait, [before?.['before'] ?? '0']);
    await this.#faultPoint('door.fenced');
    const [mark] = await execute(SQL.doorStep, [run.id, step, epoch]);
    if (mark?.['is_new'] !== '1') return fromBase64(mark?.['value'] ?? null);
    const value = await fn(tx);
    if (value !== null)
      await execute(SQL.doorValue, [run.id, step, Buffer.from(value).toString('base64')]);
    await this.#faultPoint('door.effect-not-committed');
    return value;
  }
}

/** The ledger gave us this run, and here nobody has heard of its task: then this is not the ledger's database. */
function elsewhere(run: RunRef): Error {
  return outlastError('ERR_CONFIG_TIER', {
    message: `the task row of ${run.id} is not in the database of this transaction, so it cannot be fenced`,
    hint: 'Give createOutlast an adapter on the same database as `database`.',
    fields: { option: 'adapter' },
  });
}

function fromBase64(text: string | null): Uint8Array | null {
  return text === null ? null : new Uint8Array(Buffer.from(text, 'base64'));
}

/**
 * An error of the effect is the effect's own, whatever our connections make of it: a query that takes too long or a
 * lock that does not come is a failed attempt, not a store that is away.
 */
function asThrown(error: unknown): unknown {
  return isOutlastError(error) && isUnavailable(error) ? (error.cause ?? error) : error;
}

function stale(run: RunRef): Error {
  return outlastError('ERR_FENCE_STALE', {
    message: `another run owns ${run.id}`,
    hint: 'Nothing to do: this run must end without writing.',
    fields: { id: run.id, epoch: run.epoch },
  });
}

function lockBusy(run: RunRef, cause: unknown): Error {
  return outlastError('ERR_STORE_UNAVAILABLE', {
    message: `the fence of ${run.id} is held by another transaction`,
    hint: 'The task is released and runs again; end transactions of dead processes sooner if this happens often.',
    fields: {},
    cause,
  });
}
