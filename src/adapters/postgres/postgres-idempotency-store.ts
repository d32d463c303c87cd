import {
  MOST_WAITERS,
  type AcquireReply,
  type AcquireRequest,
  type CompleteRequest,
  type FreeRequest,
  type HeldKey,
  type IdempotencyStore,
  type KeyHolder,
  type KeyRecord,
  type KeyReply,
  type KeyRun,
  type RenewRequest,
} from '../../idempotency/idempotency-store.ts';
import type { SqlDatabase, SqlRow } from '../sql/sql-database.ts';
import { SQL } from './sql.generated.ts';

/** Keys in PostgreSQL: each step is one statement on one row. */
export class PostgresIdempotencyStore implements IdempotencyStore {
  readonly #db: SqlDatabase;

  constructor(db: SqlDatabase) {
    this.#db = db;
  }

  async acquire(request: AcquireRequest): Promise<AcquireReply> {
    const { key, digest, taskId, epoch, run, leaseMs, insteadOf, ttlMs } = request;
    const [row] = await this.#db.query(SQL.idempotencyAcquire, [
      key,
      digest,
      taskId,
      epoch,
      leaseMs === undefined ? null : Math.round(leaseMs),
      insteadOf?.taskId ?? null,
      insteadOf?.epoch ?? null,
      MOST_WAITERS,
      ttlMs === undefined ? null : Math.round(ttlMs),
      run,
    ]);
    return readAnswer(row as SqlRow, request);
  }

  async complete({ key, result, ttlMs, ...by }: CompleteRequest): Promise<KeyReply> {
    const params = [key, ...runOf(by), result, Math.round(ttlMs)];
    return keyReply(await this.#db.query(SQL.idempotencyComplete, params));
  }

  async free({ key, evenDone = false, ...by }: FreeRequest): Promise<KeyReply> {
    return keyReply(await this.#db.query(SQL.idempotencyFree, [key, ...runOf(by), evenDone]));
  }

  async renew({ key, leaseMs, ...by }: RenewRequest): Promise<boolean> {
    const params = [key, ...runOf(by), Math.round(leaseMs)];
    return (await this.#db.query(SQL.idempotencyRenew, params)).length > 0;
  }

  async read(key: string): Promise<KeyRecord | null> {
    const [row] = await this.#db.query(SQL.idempotencyRead, [key]);
    if (row === undefined) return null;
    return {
      key,
      state: row['state'] as KeyRecord['state'],
      ...readHolder(row),
      run: readRun(row),
      origin: row['origin'] as string,
      digest: row['digest'] as string,
      result: row['result'] as Uint8Array | null,
      leftMs: row['left_ms'] === null ? null : Number(row['left_ms']),
      waiters: readWaiters(row),
    };
  }

  async review(idleMs: number, limit: number): Promise<readonly HeldKey[]> {
    const rows = await this.#db.query(SQL.idempotencyReview, [Math.round(idleMs), limit]);
    return rows.map(row => ({
      key: row['key'] as string,
      ...readHolder(row),
      run: readRun(row),
    }));
  }

  async prune(limit: number): Promise<number> {
    return (await this.#db.query(SQL.idempotencyPrune, [limit])).length;
  }
}

/** The current row: it shows whether the key is ours. */
function readAnswer(row: SqlRow, { taskId, epoch, run, digest }: AcquireRequest): AcquireReply {
  const holder = readHolder(row);
  const isOurs = holder.taskId === taskId;
  const isDone = row['state'] === 'done';
  if (isOurs && !isDone)
    return holder.epoch === epoch && row['run'] === run
      ? { status: 'owned', origin: row['origin'] as string }
      : { status: 'stale', epoch: holder.epoch };
  if (!isOurs && row['digest'] !== digest)
    return { status: 'mismatch', holder: isDone ? null : holder };
  if (isDone)
    return { status: 'done', by: holder.taskId, result: row['result'] as Uint8Array | null };
  return { status: 'held', holder, asked: (row['asked'] as number | null) ?? MOST_WAITERS };
}

function readHolder(row: SqlRow): KeyHolder {
  return {
    taskId: row['task_id'] as string,
    epoch: Number(row['epoch']),
    heldMs: Number(row['held_ms']),
  };
}

/** Empty in a row of an older version. */
const readRun = (row: SqlRow): string => (row['run'] as string | null) ?? '';

const runOf = ({ taskId, epoch, run }: KeyRun): readonly [string, number, string] => [
  taskId,
  epoch,
  run,
];

const readWaiters = (row: SqlRow): readonly string[] =>
  Object.keys(JSON.parse(row['waiters'] as string) as object);

function keyReply([row]: readonly SqlRow[]): KeyReply {
  return row === undefined
    ? { status: 'stale', waiters: [] }
    : { status: 'ok', waiters: readWaiters(row) };
}
