import { outlastError } from '../../errors/error.ts';
import type { RunRef } from '../../ledger/ledger.ts';
import type { TextRow, TransactionAdapter } from '../../outbox/transaction-adapter.ts';
import { effectKeyOf, fenceBusy, fenceStale, keyHash } from '../../worker/effects/door.ts';
import type { DoorRun, Entrance, Fences } from '../../worker/effects/door.ts';
import { isConnectionLost, sqlStateOf, translatePgError } from './pg-errors.ts';
import { SQL } from './sql.generated.ts';

const START_OVER: ReadonlySet<unknown> = new Set(['40001', '40P01']);
const LOCK_TIMEOUT = '55P03';

/** Fences in PostgreSQL with a separate row for each task: the ledger is elsewhere. */
export class PostgresFences<Tx> implements Fences<Tx> {
  readonly #adapter: TransactionAdapter<Tx>;

  constructor(adapter: TransactionAdapter<Tx>) {
    this.#adapter = adapter;
  }

  async transaction<T>(fn: (tx: Tx) => Promise<T>): Promise<T> {
    return await this.#adapter.transaction(async tx => {
      // A stopped process must not hold the fence for ever: the server ends abandoned transactions.
      if (this.#adapter.endsIdleTransactions) await this.execute(tx, SQL.doorLimitIdle, []);
      return await fn(tx);
    });
  }

  /** After an error there is nothing to restore: the limit ends with the transaction. */
  async briefly<T>(tx: Tx, run: RunRef, fn: () => Promise<T>): Promise<T> {
    const [before] = await this.execute(tx, SQL.doorLimitWait, []);
    try {
      const value = await fn();
      await this.execute(tx, SQL.doorRestoreWait, [before?.['before'] ?? '0']);
      return value;
    } catch (error) {
      throw sqlStateOf(error) === LOCK_TIMEOUT ? fenceBusy(run, error) : error;
    }
  }

  async take(tx: Tx, { id, epoch, run }: RunRef): Promise<Pick<RunRef, 'epoch' | 'run'>> {
    const [held] = await this.execute(tx, SQL.fenceTake, [id, String(epoch), run]);
    return { epoch: Number(held?.['epoch']), run: held?.['run'] ?? '' };
  }

  async mark(tx: Tx, run: DoorRun, step: string): Promise<Entrance> {
    const { effect } = run;
    if (effect === undefined) {
      const [marked] = await this.execute(tx, SQL.stepMark, [run.id, step, String(run.epoch)]);
      return marked?.['is_new'] === '1' ? { isNew: true } : await this.findStep(tx, run, step);
    }
    const { key, origin, ttlMs } = effect;
    const ofRun = [step, run.id, String(run.epoch), String(ttlMs)];
    const params = [key, keyHash(key), origin, ...ofRun];
    const [marked] = await this.execute(tx, SQL.effectMark, params);
    const known = { ...effect, origin: marked?.['origin'] ?? origin };
    if (marked?.['is_new'] === '1') return { isNew: true, effect: known };
    const kept = effectKeyOf({ ...run, effect: known });
    const [found] = await this.execute(tx, SQL.effectFind, [kept, step]);
    return { isNew: false, value: fromBase64(found?.['value'] ?? null) };
  }

  /** In a separate statement: commits of other sessions while ours waited are not in its snapshot. */
  protected async findStep(tx: Tx, { id }: DoorRun, step: string): Promise<Entrance> {
    const [found] = await this.execute(tx, SQL.stepFind, [id, step]);
    return { isNew: false, value: fromBase64(found?.['value'] ?? null) };
  }

  async keep(tx: Tx, run: DoorRun, step: string, value: Uint8Array): Promise<void> {
    const text = run.effect === undefined ? SQL.stepKeep : SQL.effectKeep;
    await this.execute(tx, text, [effectKeyOf(run), step, toBase64(value)]);
  }

  isConflict(error: unknown): boolean {
    return START_OVER.has(sqlStateOf(error));
  }

  asLost(error: unknown): Error | null {
    return isConnectionLost(error) ? (translatePgError(error) as Error) : null;
  }

  protected async execute(
    tx: Tx,
    text: string,
    values: readonly (string | null)[],
  ): Promise<readonly TextRow[]> {
    try {
      return await this.#adapter.execute(tx, text, values);
    } catch (error) {
      throw translatePgError(error);
    }
  }
}

/**
 * Fences when ledger and effects are in one PostgreSQL: the task row itself is the fence. Its lock is held until the user's
 * transaction ends, so no process can take the task away between the check and the effect.
 */
export class PostgresTaskFences<Tx> extends PostgresFences<Tx> {
  override async take(tx: Tx, ref: RunRef): Promise<Pick<RunRef, 'epoch' | 'run'>> {
    const { id, epoch, run } = ref;
    const fenced = await this.execute(tx, SQL.doorFence, [id, String(epoch), run]);
    if (fenced.length > 0) return { epoch, run };
    throw (await this.execute(tx, SQL.doorKnown, [id])).length === 0
      ? elsewhere(ref)
      : fenceStale(ref);
  }

  /** Steps of the task alone have a table that is deleted with the task row. */
  override async mark(tx: Tx, run: DoorRun, step: string): Promise<Entrance> {
    if (run.effect !== undefined) return await super.mark(tx, run, step);
    const marked = await this.execute(tx, SQL.doorStep, [run.id, step, String(run.epoch)]);
    return marked.length > 0 ? { isNew: true } : await this.findStep(tx, run, step);
  }

  override async keep(tx: Tx, run: DoorRun, step: string, value: Uint8Array): Promise<void> {
    if (run.effect !== undefined) return await super.keep(tx, run, step, value);
    await this.execute(tx, SQL.doorValue, [run.id, step, toBase64(value)]);
  }
}

/** The ledger gave us this run, but its task is unknown here: then this is not the ledger's database. */
function elsewhere(run: RunRef): Error {
  return outlastError('ERR_CONFIG_TIER', {
    message: `the task row of ${run.id} is not in the database of this transaction, so it cannot be fenced`,
    hint: 'Give createOutlast an adapter on the same database as `database`, or name its own in `outboxes`.',
    fields: { option: 'adapter' },
  });
}

const toBase64 = (value: Uint8Array): string => Buffer.from(value).toString('base64');

function fromBase64(text: string | null): Uint8Array | null {
  return text === null ? null : new Uint8Array(Buffer.from(text, 'base64'));
}
