import {
  MOST_WAITERS,
  type AcquireReply,
  type AcquireRequest,
  type CompleteRequest,
  type FreeRequest,
  type HeldKey,
  type IdempotencyStore,
  type KeyHolder,
  type KeyOwner,
  type KeyRecord,
  type KeyReply,
  type KeyRun,
  type RenewRequest,
} from '../../idempotency/idempotency-store.ts';
import type { Clock } from '../../runtime/runtime.ts';

interface KeyRow {
  state: KeyRecord['state'];
  taskId: string;
  epoch: number;
  run: string;
  digest: string;
  result: Uint8Array | null;
  heldAtMs: number;
  reviewedAtMs: number;
  /** Null: held by a task. */
  untilMs: number | null;
  readonly waiters: Map<string, number>;
  readonly origin: string;
  readonly ttlMs: number | null;
}

const STALE: KeyReply = { status: 'stale', waiters: [] };

/** Keys in RAM: every method does all its work before it first yields, so each is one atomic step. */
export class MemoryIdempotencyStore implements IdempotencyStore {
  readonly #clock: Pick<Clock, 'now'>;
  readonly #rows = new Map<string, KeyRow>();

  constructor(clock: Pick<Clock, 'now'>) {
    this.#clock = clock;
  }

  async acquire(request: AcquireRequest): Promise<AcquireReply> {
    const row = this.#row(request.key);
    if (row === undefined || mayTake(row, request)) return this.#take(request, row);
    if (row.taskId === request.taskId)
      return row.state === 'done' ? doneReply(row) : { status: 'stale', epoch: row.epoch };
    const holder = row.state === 'held' ? this.#holder(row) : null;
    if (row.digest !== request.digest) return { status: 'mismatch', holder };
    if (holder === null) return doneReply(row);
    return { status: 'held', holder, asked: remember(row, request) };
  }

  async complete({ key, result, ttlMs, ...owner }: CompleteRequest): Promise<KeyReply> {
    const row = this.#row(key);
    if (row === undefined || row.state === 'free' || !isRun(row, owner)) return STALE;
    if (row.state === 'held') {
      row.state = 'done';
      row.result = result?.slice() ?? null;
      row.untilMs = this.#clock.now() + ttlMs;
    }
    return { status: 'ok', waiters: [...row.waiters.keys()] };
  }

  async free({ key, evenDone = false, ...owner }: FreeRequest): Promise<KeyReply> {
    const row = this.#row(key);
    if (row === undefined || !isRun(row, owner)) return STALE;
    if (row.state !== 'held' && !evenDone) return STALE;
    const waiters = [...row.waiters.keys()];
    if (row.ttlMs === null || evenDone) this.#rows.delete(key);
    else {
      row.state = 'free';
      row.untilMs = this.#clock.now() + row.ttlMs;
      row.waiters.clear();
    }
    return { status: 'ok', waiters };
  }

  async renew({ key, leaseMs, ...owner }: RenewRequest): Promise<boolean> {
    const row = this.#row(key);
    if (row?.state !== 'held' || !isRun(row, owner)) return false;
    row.untilMs = this.#clock.now() + leaseMs;
    return true;
  }

  async read(key: string): Promise<KeyRecord | null> {
    const row = this.#row(key);
    if (row === undefined) return null;
    return {
      key,
      state: row.state,
      ...this.#holder(row),
      run: row.run,
      origin: row.origin,
      digest: row.digest,
      result: row.result?.slice() ?? null,
      leftMs: row.untilMs === null ? null : row.untilMs - this.#clock.now(),
      waiters: [...row.waiters.keys()],
    };
  }

  async review(idleMs: number, limit: number): Promise<readonly HeldKey[]> {
    const nowMs = this.#clock.now();
    const old = [...this.#rows].filter(
      ([, row]) =>
        row.state === 'held' && row.untilMs === null && row.reviewedAtMs <= nowMs - idleMs,
    );
    return old.slice(0, limit).map(([key, row]) => {
      row.reviewedAtMs = nowMs;
      return { key, ...this.#holder(row), run: row.run };
    });
  }

  async prune(limit: number): Promise<number> {
    const before = this.#rows.size;
    for (const key of this.#rows.keys()) {
      if (before - this.#rows.size === limit) break;
      this.#row(key);
    }
    return before - this.#rows.size;
  }

  /** An expired row counts as missing. */
  #row(key: string): KeyRow | undefined {
    const row = this.#rows.get(key);
    if (row === undefined || row.untilMs === null || row.untilMs > this.#clock.now()) return row;
    this.#rows.delete(key);
    return undefined;
  }

  #take(request: AcquireRequest, row: KeyRow | undefined): AcquireReply {
    const { key, taskId, epoch, run, digest, leaseMs, ttlMs = null } = request;
    const origin = row?.origin ?? taskId;
    const nowMs = this.#clock.now();
    const waiters = row?.waiters ?? new Map<string, number>();
    waiters.delete(taskId);
    this.#rows.set(key, {
      state: 'held',
      taskId,
      epoch,
      run,
      digest,
      result: null,
      heldAtMs: row?.state === 'held' && row.taskId === taskId ? row.heldAtMs : nowMs,
      reviewedAtMs: nowMs,
      untilMs: leaseMs === undefined ? null : nowMs + leaseMs,
      waiters,
      origin,
      ttlMs,
    });
    return { status: 'owned', origin };
  }

  #holder({ taskId, epoch, heldAtMs }: KeyRow): KeyHolder {
    return { taskId, epoch, heldMs: this.#clock.now() - heldAtMs };
  }
}

const isOf = (row: KeyRow, owner: KeyOwner): boolean =>
  row.taskId === owner.taskId && row.epoch === owner.epoch;

const isRun = (row: KeyRow, owner: KeyRun): boolean => isOf(row, owner) && row.run === owner.run;

/** Of two runs under one epoch the first has it: the other asks the ledger which of them owns the task. */
function mayTake(row: KeyRow, request: AcquireRequest): boolean {
  const { taskId, epoch, insteadOf } = request;
  if (row.state !== 'held') return row.state === 'free';
  if (row.taskId === taskId) return row.epoch < epoch || isRun(row, request);
  return insteadOf !== undefined && isOf(row, insteadOf);
}

function doneReply({ taskId, result }: KeyRow): AcquireReply {
  return { status: 'done', by: taskId, result: result?.slice() ?? null };
}

/** How often it has asked. A task beyond the limit, or one that no ledger knows, is not remembered. */
function remember({ waiters }: KeyRow, { taskId, leaseMs }: AcquireRequest): number {
  const isFull = waiters.size >= MOST_WAITERS && !waiters.has(taskId);
  if (isFull || leaseMs !== undefined) return MOST_WAITERS;
  const asked = (waiters.get(taskId) ?? 0) + 1;
  waiters.set(taskId, asked);
  return asked;
}
