import { outlastError } from '../../errors/error.ts';
import type { RunRef } from '../../ledger/ledger.ts';
import {
  rolledBack,
  type TextRow,
  type TransactionAdapter,
} from '../../outbox/transaction-adapter.ts';
import { effectKeyOf, fenceBusy } from '../../worker/door.ts';
import type { DoorRun, Entrance, Fences } from '../../worker/door.ts';
import {
  isBroken,
  isConflict,
  isDuplicate,
  isLockWait,
  translateMysqlError,
} from './mysql-errors.ts';
import { SQL } from './sql.generated.ts';
import { bind, type MysqlStatement } from './statement.ts';

const LOCK_WAIT_SECONDS = 5;
const IDLE_SECONDS = 10;
/** Values up to here fit into a statement of every server; about longer ones it is asked. */
const SURE_BYTES = 500_000;
/** What stands around a value, and the line breaks of its text. */
const OVERHEAD = 1.05;

/** Fences in MySQL and MariaDB, with a row of their own for each task: the ledger is always elsewhere. */
export class MysqlFences<Tx> implements Fences<Tx> {
  readonly #adapter: TransactionAdapter<Tx>;

  constructor(adapter: TransactionAdapter<Tx>) {
    this.#adapter = adapter;
  }

  /** What is set for the session must hold until COMMIT is answered, so it is set back after that. */
  async transaction<T>(fn: (tx: Tx) => Promise<T>): Promise<T> {
    if (!this.#adapter.endsIdleTransactions) return await this.#adapter.transaction(fn);
    const before = new WeakMap<Tx & object, readonly string[]>();
    return await this.#adapter.transaction(
      async tx => {
        const { idle, autocommit } = await this.#limits(tx);
        before.set(tx as Tx & object, [idle, autocommit]);
        const seconds = Math.min(Number(idle), IDLE_SECONDS);
        await this.#execute(tx, SQL.doorLimitIdle, [String(seconds), '0']);
        return await fn(tx);
      },
      async tx => {
        const settings = before.get(tx as Tx & object);
        if (settings !== undefined) await this.#execute(tx, SQL.doorLimitIdle, settings);
      },
    );
  }

  async briefly<T>(tx: Tx, run: RunRef, fn: () => Promise<T>): Promise<T> {
    const { lockWait } = await this.#limits(tx);
    const seconds = Math.min(Number(lockWait), LOCK_WAIT_SECONDS);
    await this.#execute(tx, SQL.doorLimitWait, [String(seconds)]);
    const restore = (): Promise<unknown> => this.#execute(tx, SQL.doorLimitWait, [lockWait]);
    try {
      const value = await fn();
      await restore();
      return value;
    } catch (error) {
      // The session outlives the transaction. One that cannot be asked any more will not be used again.
      await restore().catch(() => undefined);
      throw isLockWait(error) ? fenceBusy(run, error) : error;
    }
  }

  async take(tx: Tx, { id, epoch, run }: RunRef): Promise<Pick<RunRef, 'epoch' | 'run'>> {
    await this.#execute(tx, SQL.fenceTake, [id, String(epoch), run]);
    const [held] = await this.#execute(tx, SQL.fenceRead, [id]);
    return { epoch: Number(held?.['epoch']), run: held?.['run'] ?? '' };
  }

  async mark(tx: Tx, run: DoorRun, step: string): Promise<Entrance> {
    const key = effectKeyOf(run);
    const ttlMs = run.effect === undefined ? null : String(run.effect.ttlMs);
    try {
      await this.#execute(tx, SQL.effectMark, [key, step, run.id, String(run.epoch), ttlMs]);
      return { isNew: true };
    } catch (error) {
      // Only the statement is undone by it.
      if (!isDuplicate(error)) throw error;
    }
    const [found] = await this.#execute(tx, SQL.effectFind, [key, step]);
    const value = found?.['value'] ?? null;
    return {
      isNew: false,
      value: value === null ? null : new Uint8Array(Buffer.from(value, 'base64')),
    };
  }

  /** A deadlock ends the whole transaction, and a session that goes on all the same has begun another. */
  async confirm(tx: Tx, run: DoorRun, step: string): Promise<void> {
    const params = [effectKeyOf(run), step, String(run.epoch)];
    if ((await this.#execute(tx, SQL.effectMarked, params)).length === 0) throw rolledBack();
  }

  async keep(tx: Tx, run: DoorRun, step: string, value: Uint8Array): Promise<void> {
    const text = Buffer.from(value).toString('base64');
    if (text.length > SURE_BYTES) await this.#refuseTooLarge(tx, text.length);
    await this.#execute(tx, SQL.effectKeep, [effectKeyOf(run), step, text]);
  }

  isConflict(error: unknown): boolean {
    return isConflict(error);
  }

  asLost(error: unknown): Error | null {
    return isBroken(error) ? (translateMysqlError(error) as Error) : null;
  }

  async #limits(tx: Tx): Promise<Record<'lockWait' | 'idle' | 'autocommit', string>> {
    const [limits] = await this.#execute(tx, SQL.doorLimits, []);
    const text = (name: string): string => limits?.[name] ?? '';
    return { lockWait: text('lock_wait'), idle: text('idle'), autocommit: text('autocommit') };
  }

  /** A statement that the server does not take ends the connection, and the task would be given back for ever. */
  async #refuseTooLarge(tx: Tx, length: number): Promise<void> {
    const [limit] = await this.#execute(tx, SQL.packetLimit, []);
    const maxBytes = Number(limit?.['bytes']);
    if (length * OVERHEAD <= maxBytes) return;
    throw outlastError('ERR_PAYLOAD_TOO_LARGE', {
      message: `the value of a step makes a statement of ${length} bytes, and the server takes ${maxBytes}`,
      hint: 'Store the data in your own tables and return a reference to it, or raise max_allowed_packet of the server.',
      fields: { bytes: length, maxBytes },
    });
  }

  async #execute(
    tx: Tx,
    statement: MysqlStatement,
    params: readonly (string | null)[],
  ): Promise<readonly TextRow[]> {
    const { text, values } = bind<string | null>(statement, params);
    try {
      return await this.#adapter.execute(tx, text, values);
    } catch (error) {
      throw translateMysqlError(error);
    }
  }
}
