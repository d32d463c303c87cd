import { hash } from 'node:crypto';
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
import { LUA } from './lua.generated.ts';
import type { RedisConnection } from './redis-connection.ts';

/** Keys are spread over this many hash slots of a cluster; the keys of one share a list of holders. */
const SLOTS = 64;
const WAITER = 'w:';

/** Keys in Redis: each step is one script, and touches one hash slot. Results and leases expire by themselves. */
export class RedisIdempotencyStore implements IdempotencyStore {
  readonly #connection: RedisConnection;
  readonly #prefix: string;

  /** `prefix` is put in front of every key, for tests that share a server. */
  constructor(connection: RedisConnection, prefix = '') {
    this.#connection = connection;
    this.#prefix = prefix;
  }

  async acquire(request: AcquireRequest): Promise<AcquireReply> {
    const { key, digest, taskId, epoch, run, leaseMs, insteadOf, ttlMs } = request;
    const reply = await this.#connection.script(
      LUA.idempotencyAcquire,
      [this.#rootOf(key)],
      [
        key,
        digest,
        taskId,
        epoch,
        leaseMs === undefined ? '' : Math.round(leaseMs),
        insteadOf?.taskId ?? '',
        insteadOf?.epoch ?? -1,
        MOST_WAITERS,
        ttlMs === undefined ? '' : Math.round(ttlMs),
        run,
      ],
    );
    return readAnswer(reply as AnswerParts);
  }

  async complete({ key, result, ttlMs, ...by }: CompleteRequest): Promise<KeyReply> {
    const args = [key, ...runOf(by), Math.round(ttlMs), ...(result === null ? [] : [result])];
    return keyReply(
      await this.#connection.script(LUA.idempotencyComplete, [this.#rootOf(key)], args),
    );
  }

  async free({ key, evenDone = false, ...by }: FreeRequest): Promise<KeyReply> {
    const args = [key, ...runOf(by), evenDone ? '1' : '0'];
    return keyReply(await this.#connection.script(LUA.idempotencyFree, [this.#rootOf(key)], args));
  }

  async renew({ key, leaseMs, ...by }: RenewRequest): Promise<boolean> {
    const args = [key, ...runOf(by), Math.round(leaseMs)];
    const reply = await this.#connection.script(LUA.idempotencyRenew, [this.#rootOf(key)], args);
    return reply === 1;
  }

  async read(key: string): Promise<KeyRecord | null> {
    const reply = await this.#connection.script(LUA.idempotencyRead, [this.#rootOf(key)], [key]);
    const [nowMs, leftMs, fields] = reply as readonly [number, number, readonly Buffer[]];
    const record = new Map<string, Buffer>();
    for (let at = 0; at + 1 < fields.length; at += 2)
      record.set(String(fields[at]), fields[at + 1] as Buffer);
    if (record.size === 0) return null;
    const text = (field: string): string => String(record.get(field) ?? '');
    const isFree = text('freed_by') === `${text('task')}@${text('epoch')}`;
    return {
      key,
      state: isFree ? 'free' : (text('state') as KeyRecord['state']),
      taskId: text('task'),
      epoch: Number(text('epoch')),
      run: text('run'),
      origin: text('origin') || text('task'),
      heldMs: nowMs - Number(text('held_at')),
      digest: text('digest'),
      result: record.get('result') ?? null,
      leftMs: leftMs < 0 ? null : leftMs,
      waiters: [...record.keys()]
        .filter(field => field.startsWith(WAITER))
        .map(field => field.slice(WAITER.length)),
    };
  }

  async review(idleMs: number, limit: number): Promise<readonly HeldKey[]> {
    const perSlot = Math.max(1, Math.ceil(limit / SLOTS));
    const slots = Array.from({ length: SLOTS }, (_, slot) =>
      this.#connection.script(LUA.idempotencyReview, [this.#root(slot)], [idleMs, perSlot]),
    );
    const rows = (await Promise.all(slots)) as (readonly ReviewParts[])[];
    return rows.flat().map(([key, task, epoch, heldMs, run]) => ({
      key: String(key),
      ...readHolder([task, epoch, heldMs]),
      run: String(run),
    }));
  }

  async prune(): Promise<number> {
    return 0;
  }

  #root(slot: number): string {
    return `${this.#prefix}outlast:idempotency:{${slot}}:`;
  }

  #rootOf(key: string): string {
    return this.#root(Number.parseInt(hash('sha1', key).slice(0, 4), 16) % SLOTS);
  }
}

type ReviewParts = readonly [key: Buffer, ...HolderParts, run: Buffer];
type HolderParts = readonly [task: Buffer, epoch: Buffer, heldMs: number];
/** The numbers are those of idempotency-acquire.lua. */
type AnswerParts =
  | readonly [1, origin: Buffer]
  | readonly [2, epoch: number]
  | readonly [6]
  | readonly [3, by: Buffer, result: Buffer | null]
  | readonly [4, ...HolderParts, asked: number]
  | readonly [5, ...HolderParts];

function readAnswer(parts: AnswerParts): AcquireReply {
  switch (parts[0]) {
    case 1:
      return { status: 'owned', origin: String(parts[1]) };
    case 2:
      return { status: 'stale', epoch: parts[1] };
    case 3:
      return { status: 'done', by: String(parts[1]), result: parts[2] };
    case 4:
      return {
        status: 'held',
        holder: readHolder([parts[1], parts[2], parts[3]]),
        asked: parts[4],
      };
    case 5:
      return { status: 'mismatch', holder: readHolder([parts[1], parts[2], parts[3]]) };
    case 6:
      return { status: 'mismatch', holder: null };
  }
}

const runOf = ({ taskId, epoch, run }: KeyRun): readonly [string, number, string] => [
  taskId,
  epoch,
  run,
];

function readHolder([task, epoch, heldMs]: HolderParts): KeyHolder {
  return { taskId: String(task), epoch: Number(String(epoch)), heldMs };
}

function keyReply(reply: unknown): KeyReply {
  return reply === null
    ? { status: 'stale', waiters: [] }
    : { status: 'ok', waiters: (reply as readonly Buffer[]).map(String) };
}
