import { outlastError } from '../../errors/error.ts';
import type { RunRef } from '../../ledger/ledger.ts';
import {
  rolledBack,
  type TextRow,
  type TransactionAdapter,
} from '../../outbox/transaction-adapter.ts';
import { effectKeyOf, fenceBusy, keyHash } from '../../worker/effects/door.ts';
import type { DoorRun, EffectKey, Entrance, Fences } from '../../worker/effects/door.ts';
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
/** Values up to this size fit into a statement of every server; for longer ones the server is asked. */
const SURE_BYTES = 500_000;
/** For the text around a value, and the line breaks in it. */
const OVERHEAD = 1.05;

/** Fences in MySQL and MariaDB, with a separate row for each task: the ledger is always elsewhere. */
export class MysqlFences<Tx> implements Fences<Tx> {
  readonly #adapter: TransactionAdapter<Tx>;

  constructor(adapter: TransactionAdapter<Tx>) {
    this.#adapter = adapter;
  }

  /** Settings of the session must hold until COMMIT is answered, so they are restored after that. */
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
      // The session outlives the transaction. A session that does not answer any more will not be used again.
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
    const effect = run.effect === undefined ? undefined : await this.#known(tx, run.effect);
    const key = effectKeyOf({ ...run, effect });
    const ttlMs = effect === undefined ? null : String(effect.ttlMs);
    try {
      await this.#execute(tx, SQL.effectMark, [key, step, run.id, String(run.epoch), ttlMs]);
      return effect === undefined ? { isNew: true } : { isNew: true, effect };
    } catch (error) {
      // The error undoes only the statement.
      if (!isDuplicate(error)) throw error;
    }
    const [found] = await this.#execute(tx, SQL.effectFind, [key, step]);
    const value = found?.['value'] ?? null;
    return {
      isNew: false,
      value: value === null ? null : new Uint8Array(Buffer.from(value, 'base64')),
    };
  }

  /** With the origin that this database remembers. Two tasks of one key wait for each other here. */
  async #known(tx: Tx, effect: EffectKey): Promise<EffectKey> {
    const hash = keyHash(effect.key);
    await this.#execute(tx, SQL.effectKeyTake, [hash, effect.origin, String(effect.ttlMs)]);
    const [found] = await this.#execute(tx, SQL.effectKeyRead, [hash]);
    return { ...effect, origin: found?.['origin'] ?? effect.origin };
  }

  /** A deadlock ends the whole transaction, and a session that goes on anyway has begun another. */
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

  /** A statement that is too large for the server ends the connection, and the task would be given back for ever. */
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
