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
  type RenewRequest,
} from '../../idempotency/idempotency-store.ts';
import type { SqlDatabase, SqlRow } from './sql-database.ts';
import { SQL } from './sql.generated.ts';

/** Keys in PostgreSQL: each step is one statement on one row. */
export class PostgresIdempotencyStore implements IdempotencyStore {
  readonly #db: SqlDatabase;

  constructor(db: SqlDatabase) {
    this.#db = db;
  }

  async acquire(request: AcquireRequest): Promise<AcquireReply> {
    const { key, digest, taskId, epoch, leaseMs, insteadOf, ttlMs } = request;
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
    ]);
    return readAnswer(row as SqlRow, request);
  }

  async complete({ key, taskId, epoch, result, ttlMs }: CompleteRequest): Promise<KeyReply> {
    const params = [key, taskId, epoch, result, Math.round(ttlMs)];
    return keyReply(await this.#db.query(SQL.idempotencyComplete, params));
  }

  async free({ key, taskId, epoch, evenDone = false }: FreeRequest): Promise<KeyReply> {
    return keyReply(await this.#db.query(SQL.idempotencyFree, [key, taskId, epoch, evenDone]));
  }

  async renew({ key, taskId, epoch, leaseMs }: RenewRequest): Promise<boolean> {
    const params = [key, taskId, epoch, Math.round(leaseMs)];
    return (await this.#db.query(SQL.idempotencyRenew, params)).length > 0;
  }

  async read(key: string): Promise<KeyRecord | null> {
    const [row] = await this.#db.query(SQL.idempotencyRead, [key]);
    if (row === undefined) return null;
    return {
      key,
      state: row['state'] as KeyRecord['state'],
      ...readHolder(row),
      origin: row['origin'] as string,
      digest: row['digest'] as string,
      result: row['result'] as Uint8Array | null,
      leftMs: row['left_ms'] === null ? null : Number(row['left_ms']),
      waiters: readWaiters(row),
    };
  }

  async review(idleMs: number, limit: number): Promise<readonly HeldKey[]> {
    const rows = await this.#db.query(SQL.idempotencyReview, [Math.round(idleMs), limit]);
    return rows.map(row => ({ key: row['key'] as string, ...readHolder(row) }));
  }

  async prune(limit: number): Promise<number> {
    return (await this.#db.query(SQL.idempotencyPrune, [limit])).length;
  }
}

/** The row as it is now: it says whether it is ours. */
function readAnswer(row: SqlRow, { taskId, epoch, digest }: AcquireRequest): AcquireReply {
  const holder = readHolder(row);
  const isOurs = holder.taskId === taskId;
  const isDone = row['state'] === 'done';
  if (isOurs && !isDone)
    return holder.epoch === epoch
      ? { status: 'owned', origin: row['origin'] as string }
      : { status: 'stale' };
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

const readWaiters = (row: SqlRow): readonly string[] =>
  Object.keys(JSON.parse(row['waiters'] as string) as object);

function keyReply([row]: readonly SqlRow[]): KeyReply {
  return row === undefined
    ? { status: 'stale', waiters: [] }
    : { status: 'ok', waiters: readWaiters(row) };
}
