import type {
  AfterLog,
  BeginReply,
  BeginRequest,
  BuryItem,
  CancelStatus,
  ChordAnswer,
  ChordPart,
  CommitItem,
  CondemnReply,
  CondemnTarget,
  FailItem,
  Ledger,
  LiftReply,
  LostRun,
  ParkItem,
  ReapReply,
  ReleaseItem,
  RenewReply,
  RunRef,
  StepStatus,
  WorkerOpening,
} from '../../ledger/ledger.ts';
import { generationOf } from '../../ledger/generation-store.ts';
import type { PurgeReply, PurgeRequest, ReviveStatus } from '../../outbox/outbox-store.ts';
import type { FaultPoint } from '../../runtime/fault-point.ts';
import { LUA } from './lua.generated.ts';
import { redisAfterLog } from './redis-after.ts';
import { beginArguments, readBeginReply, type BeginReplyParts } from './redis-begin.ts';
import { RedisChords } from './redis-chords.ts';
import { commitParts, isOfNew, newCommitParts, type NewCommit } from './redis-commit.ts';
import type { RedisArgument, RedisConnection } from './redis-connection.ts';
import type { RedisGeneration } from './redis-generation.ts';
import { RedisHints } from './redis-hints.ts';
import { queueKeys } from './redis-keys.ts';
import { pack, type Packable } from './redis-pack.ts';
import { purgeDead } from './redis-purge.ts';
import { encodeError, messageParts } from './redis-record.ts';
import {
  liftOf,
  readCondemned,
  readReaped,
  readRuns,
  revivalOf,
  statusOf,
} from './redis-replies.ts';
import type { LuaScript } from './redis-script.ts';

export interface RedisLedgerOptions {
  /**
   * Also messages that no record knows are begun when memory is full. For a broker on the same server: there beginning
   * messages is the only way to get rid of them.
   */
  readonly beginsWhenFull: boolean;
  /**
   * Outcomes are also written as Celery writes them, for Python's AsyncResult, and kept so long in milliseconds; results
   * are there alone. 0: they are not. Not on a cluster, which Celery does not know.
   */
  readonly celeryResultMs: number;
  /** The name under which the broker of this process holds elements on this very server. Missing: it is elsewhere. */
  readonly consumer?: string;
  readonly faultPoint?: FaultPoint;
}

/** Items of one call: it holds the server for as long as it takes, and they must fit on Lua's stack. */
const CHUNK = 500;

/**
 * The ledger in Redis, as far as one root of keys goes: each step is one script, and a script touches only keys under its
 * root. On a server alone one root holds everything. On a cluster each queue has its own: see `RedisClusterLedger`.
 */
export class RedisLedger implements Ledger {
  readonly after: AfterLog;
  readonly chords: RedisChords;
  readonly acknowledges: boolean;
  readonly #connection: RedisConnection;
  readonly #root: string;
  readonly #generation: RedisGeneration;
  readonly #options: RedisLedgerOptions;
  readonly #hints: RedisHints;

  constructor(
    connection: RedisConnection,
    root: string,
    generation: RedisGeneration,
    options: RedisLedgerOptions,
  ) {
    this.#connection = connection;
    this.#root = root;
    this.#generation = generation;
    this.#options = options;
    this.acknowledges = options.consumer !== undefined;
    this.#hints = new RedisHints(connection, `${root}ready`);
    this.after = redisAfterLog(connection, root);
    this.chords = new RedisChords(connection, {
      index: `${root}chords`,
      keyOf: groupId => `${root}chord:${groupId}`,
      celeryResultMs: options.celeryResultMs,
    });
  }

  async open(opening: WorkerOpening): Promise<void> {
    const { worker, process, host, pid, leaseMs } = opening;
    await this.#run(LUA.ledgerOpen, worker, process, host, pid, leaseMs);
  }

  async begin(request: BeginRequest): Promise<BeginReply> {
    const isNewWork = request.messages.length > 0 && !this.#options.beginsWhenFull;
    const script = isNewWork ? LUA.ledgerBegin : LUA.ledgerBeginFull;
    let runId = await this.#generation.runId();
    for (;;) {
      const identity = [runId, this.#generation.known] as const;
      const { celeryResultMs, consumer } = this.#options;
      const held = consumer === undefined ? [] : heldKeys(request, consumer);
      const { runsAt } = request;
      const started = runsAt === undefined ? '' : JSON.stringify(runsAt);
      const rest = [celeryResultMs, pack(held), started, request.isFirst === true ? '1' : ''];
      const args = [...beginArguments(request, identity), ...rest];
      const [status, ...parts] = (await this.#run(script, ...args)) as readonly unknown[];
      const word = String(status);
      if (word === 'closed') return { status: 'closed' };
      if (word === 'open') return readBeginReply(request, parts as unknown as BeginReplyParts);
      await this.#generation.settle();
      runId = await this.#generation.runId();
    }
  }

  async renew(worker: string): Promise<RenewReply> {
    const reply = (await this.#run(LUA.ledgerRenew, worker)) as readonly unknown[];
    const [status, fields] = reply as readonly [Buffer, readonly Buffer[] | undefined];
    if (String(status) === 'closed' || fields === undefined) return { status: 'closed' };
    return { status: 'open', runs: readRuns(fields) };
  }

  async checkpoint(run: RunRef, seq: number, data: Uint8Array): Promise<StepStatus> {
    const { id, epoch } = run;
    return statusOf(await this.#run(LUA.ledgerCheckpoint, id, epoch, run.run, seq, data));
  }

  async lift({ id, epoch, run }: RunRef, above: number): Promise<LiftReply> {
    return liftOf(await this.#run(LUA.ledgerLift, id, epoch, run, above));
  }

  async commit(items: readonly CommitItem[]): Promise<readonly StepStatus[]> {
    const { celeryResultMs } = this.#options;
    const done = await this.#commitNew(items.filter(isOfNew));
    const others = done.size === items.length ? [] : items.filter(item => !done.has(item));
    if (done.size > 0 && others.length > 0)
      await this.#options.faultPoint?.('ledger.committed-in-part');
    const partsOf = (item: CommitItem): Packable => commitParts(item, celeryResultMs);
    const statuses = (await this.#settle(LUA.ledgerCommit, others, partsOf)).values();
    return items.map(item => (done.has(item) ? 'ok' : (statuses.next().value as StepStatus)));
  }

  /** Those that were ended without a look at their records. */
  async #commitNew(items: readonly NewCommit[]): Promise<ReadonlySet<CommitItem>> {
    const { celeryResultMs } = this.#options;
    const done = new Set<CommitItem>();
    for (const some of chunks(items)) {
      const batches = pack(newCommitParts(some, celeryResultMs));
      const reply = await this.#run(LUA.ledgerCommitNew, batches, celeryResultMs);
      for (const [place, isDone] of (reply as readonly number[]).entries())
        if (isDone === 1) done.add(some[place] as CommitItem);
    }
    return done;
  }

  async fail(items: readonly FailItem[]): Promise<readonly StepStatus[]> {
    return await this.#settle(LUA.ledgerFail, items, item => [
      ...refParts(item.ref),
      encodeError(item.error),
      item.delayMs === null ? false : Math.round(item.delayMs),
      item.reason,
      item.isCrash ?? false,
    ]);
  }

  async release(items: readonly ReleaseItem[]): Promise<readonly StepStatus[]> {
    const partsOf = (item: ReleaseItem): Packable => [
      ...refParts(item),
      item.delayMs === undefined ? false : Math.round(item.delayMs),
    ];
    return await this.#inChunks(LUA.ledgerRelease, items, partsOf, []);
  }

  async wake(ids: readonly string[]): Promise<void> {
    for (const some of chunks(ids)) await this.#run(LUA.ledgerWake, pack(some));
  }

  async bury(items: readonly BuryItem[]): Promise<readonly StepStatus[]> {
    const runs = items.filter(item => item.kind === 'run');
    const messages = items.filter(item => item.kind === 'message');
    const ofRuns = await this.#settle(LUA.ledgerBuryRuns, runs, ({ ref, error, reason }) => [
      ...refParts(ref),
      encodeError(error),
      reason,
    ]);
    const ofMessages = await this.#inChunks(
      LUA.ledgerBuryMessages,
      messages,
      ({ envelope, reason, error }) => [messageParts(envelope), reason, encodeError(error)],
      [],
    );
    const [run, message] = [ofRuns.values(), ofMessages.values()];
    return items.map(({ kind }) => (kind === 'run' ? run : message).next().value as StepStatus);
  }

  async park(items: readonly ParkItem[]): Promise<void> {
    for (const some of chunks(items)) {
      const parts = some.map(({ envelope, delayMs }) => [
        messageParts(envelope),
        Math.max(0, Math.round(delayMs)),
        `${envelope.id}#${envelope.digest.slice(0, 16)}`,
      ]);
      await this.#run(LUA.ledgerPark, pack(parts));
    }
  }

  /** Handed out in an earlier generation, and not known in this one: the memory of it was lost, not its time over. */
  async rescue(runs: readonly LostRun[]): Promise<void> {
    await this.#generation.settle();
    const { known } = this.#generation;
    const lost = runs.filter(({ epoch }) => generationOf(epoch) < known);
    await this.park(lost.map(({ envelope }) => ({ envelope, delayMs: 0 })));
  }

  async condemn(target: CondemnTarget): Promise<CondemnReply> {
    switch (target.kind) {
      case 'expired':
        return readCondemned(await this.#run(LUA.ledgerCondemnExpired));
      case 'process':
        return readCondemned(await this.#run(LUA.ledgerCondemnProcess, target.process));
      case 'worker':
        return await this.#condemnWorkers([target.worker], false);
    }
  }

  /** Closes incarnations that were closed elsewhere, also those whose opening may be on its way to here. */
  async closeAsWell(workers: readonly string[]): Promise<CondemnReply> {
    return await this.#condemnWorkers(workers, true);
  }

  async #condemnWorkers(workers: readonly string[], unknownToo: boolean): Promise<CondemnReply> {
    const args = [unknownToo ? '1' : '0', pack(workers)];
    return readCondemned(await this.#run(LUA.ledgerCondemnWorkers, ...args));
  }

  async reap(limit: number): Promise<ReapReply> {
    const most = Math.min(limit, CHUNK);
    return readReaped(await this.#run(LUA.ledgerReap, most, this.#options.celeryResultMs), most);
  }

  async revive(id: string, version: number): Promise<ReviveStatus> {
    const isTold = this.#options.celeryResultMs > 0 ? '1' : '0';
    return revivalOf(await this.#run(LUA.ledgerRevive, id, version, isTold));
  }

  async purgeDead(request: PurgeRequest): Promise<PurgeReply> {
    return await purgeDead(this.#connection, [this.#root], request);
  }

  async cancel(id: string): Promise<CancelStatus> {
    return (await this.#cancel(id, 'leave')) === 1 ? 'ok' : 'terminal';
  }

  /** Cancels what is known here; null: nothing is, and no tombstone was left. */
  async cancelKnown(id: string): Promise<CancelStatus | null> {
    const status = await this.#cancel(id, 'known');
    return status === 3 ? null : status === 1 ? 'ok' : 'terminal';
  }

  /** Leaves a copy of a tombstone that is elsewhere and counted there. */
  async cancelAsWell(id: string): Promise<CancelStatus> {
    return (await this.#cancel(id, 'copy')) === 1 ? 'ok' : 'terminal';
  }

  async #cancel(id: string, how: 'leave' | 'known' | 'copy'): Promise<unknown> {
    return await this.#run(LUA.ledgerCancel, id, how, this.#options.celeryResultMs);
  }

  /** Tombstones go by themselves when their time is over; their counts were taken when they were made. */
  async prune(): Promise<number> {
    return 0;
  }

  async joinChord(part: ChordPart): Promise<ChordAnswer> {
    return await this.chords.join(part);
  }

  async abandonChords(limit: number): Promise<readonly string[]> {
    return await this.chords.abandon(limit);
  }

  onReady(hint: () => void): () => void {
    return this.#hints.add(hint);
  }

  async close(): Promise<void> {
    this.#hints.close();
    this.#connection.close();
  }

  /** A step that may end a task, and then is told to Celery too. */
  async #settle<Item>(
    script: LuaScript,
    items: readonly Item[],
    partsOf: (item: Item) => Packable,
  ): Promise<readonly StepStatus[]> {
    return await this.#inChunks(script, items, partsOf, [this.#options.celeryResultMs]);
  }

  async #inChunks<Item>(
    script: LuaScript,
    items: readonly Item[],
    partsOf: (item: Item) => Packable,
    rest: readonly RedisArgument[],
  ): Promise<readonly StepStatus[]> {
    const statuses: StepStatus[] = [];
    for (const some of chunks(items)) {
      const reply = await this.#run(script, pack(some.map(partsOf)), ...rest);
      statuses.push(...(reply as readonly unknown[]).map(statusOf));
    }
    return statuses;
  }

  async #run(script: LuaScript, ...args: readonly RedisArgument[]): Promise<unknown> {
    return await this.#connection.script(script, [this.#root], args);
  }
}

/** Where the broker keeps the elements of messages until they are acknowledged, by queue. */
function heldKeys({ messages }: BeginRequest, consumer: string): readonly (readonly string[])[] {
  const queues = new Set(messages.map(({ queue }) => queue));
  return [...queues].map(queue => [queue, queueKeys(queue, false).heldPrefix + consumer]);
}

function chunks<T>(items: readonly T[]): readonly (readonly T[])[] {
  const count = Math.ceil(items.length / CHUNK);
  return Array.from({ length: count }, (_, n) => items.slice(n * CHUNK, (n + 1) * CHUNK));
}

function refParts({ id, epoch, run }: RunRef): Packable[] {
  return [id, epoch, run];
}
