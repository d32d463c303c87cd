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
  RaiseReply,
  LostRun,
  ParkItem,
  ReapReply,
  RefusalLog,
  ReleaseItem,
  RenewReply,
  RunRef,
  StepStatus,
  WorkerOpening,
} from '../../ledger/ledger.ts';
import {
  beginInSlices,
  bytesOfBury,
  bytesOfCommit,
  bytesOfEnvelope,
} from '../../ledger/batch-limits.ts';
import { type Death, HOST_LOST, deathBy, encodeDeath } from '../../ledger/death.ts';
import { generationOf } from '../../ledger/generation-store.ts';
import type { PurgeReply, PurgeRequest, ReviveStatus } from '../../outbox/outbox-store.ts';
import { slicesOf } from '../../runtime/wakeable.ts';
import { LUA } from './lua.generated.ts';
import { redisAfterLog } from './redis-after.ts';
import { type BeginReplyParts, beginArguments, heldKeys, readBeginReply } from './redis-begin.ts';
import { RedisChords } from './redis-chords.ts';
import {
  type CommitManner,
  type NewCommit,
  commitParts,
  isOfNew,
  newCommitParts,
} from './redis-commit.ts';
import type { LuaScript, RedisArgument, RedisConnection } from './redis-connection.ts';
import { CHUNK, idOf, isolateRecords, sliced, withIsolation } from './redis-batch.ts';
import type { RedisGeneration } from './redis-generation.ts';
import { RedisHints } from './redis-publish.ts';
import { rankBy } from './redis-keys.ts';
import { type Packable, pack } from './redis-pack.ts';
import { purgeDead } from './redis-purge.ts';
import { packRunnable, redisRefusals } from './redis-refusals.ts';
import { encodeError, messageParts } from './redis-record.ts';
import {
  raiseReplyOf,
  readCondemned,
  readReaped,
  readRuns,
  revivalOf,
  statusOf,
} from './redis-replies.ts';
import { ageTallies, packObjectives } from './redis-tallies.ts';
import { redisTeller } from './redis-tell.ts';
import type { RedisLedgerOptions } from './redis-ledger-options.ts';

/** For each further try of a `begin`, a server must have restarted or been replaced between two calls. */
const MAX_TRIES = 5;

/**
 * The ledger in Redis under one key root: each step is one script, and a script touches only keys under its root. On a
 * single server one root holds everything. On a cluster each queue has its own: see `RedisClusterLedger`.
 */
export class RedisLedger implements Ledger {
  readonly after: AfterLog;
  readonly refusals: RefusalLog;
  readonly chords: RedisChords;
  readonly acknowledges: boolean;
  readonly countsWithCelery: boolean;
  readonly recordNeverSent?: NonNullable<Ledger['recordNeverSent']>;
  readonly #connection: RedisConnection;
  readonly #root: string;
  readonly #generation: RedisGeneration;
  readonly #options: RedisLedgerOptions;
  readonly #manner: CommitManner;
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
    this.#manner = { ...options, rank: rankBy(options.isZeroFirst ?? false) };
    this.acknowledges = options.consumer !== undefined;
    this.countsWithCelery = options.celeryResultMs > 0;
    if (this.countsWithCelery)
      this.recordNeverSent = redisTeller(connection, root, options.celeryResultMs);
    this.#hints = new RedisHints(connection, `${root}ready`);
    this.after = redisAfterLog(connection, root, this.#manner.rank);
    this.refusals = redisRefusals(connection, root, this.#manner);
    this.chords = new RedisChords(connection, {
      index: `${root}chords`,
      keyOf: groupId => `${root}chord:${groupId}`,
      celeryResultMs: options.celeryResultMs,
    });
  }

  async open(opening: WorkerOpening): Promise<void> {
    const { worker, process, host, pid, leaseMs, objectives } = opening;
    const said = packObjectives(objectives ?? {});
    await this.#run(LUA.ledgerOpen, worker, process, host, pid, leaseMs, said);
  }

  async begin(request: BeginRequest): Promise<BeginReply> {
    const limit = Math.min(request.limit, CHUNK);
    return await beginInSlices({ ...request, limit }, part => this.#begin(part));
  }

  async #begin(request: BeginRequest): Promise<BeginReply> {
    const { queues, messages } = request;
    const scope = { ids: messages.map(({ id }) => id), queues };
    return await withIsolation(this.#connection, this.#root, scope, async isolated => {
      const reply = await this.#beginOnce(request);
      if (reply.status === 'closed' || isolated.length === 0) return reply;
      return { ...reply, unreadable: [...isolated, ...(reply.unreadable ?? [])] };
    });
  }

  async #beginOnce(request: BeginRequest): Promise<BeginReply> {
    const isNewWork = request.messages.length > 0 && !this.#options.beginsWhenFull;
    const script = isNewWork ? LUA.ledgerBegin : LUA.ledgerBeginFull;
    const { celeryResultMs, consumer } = this.#options;
    const held = consumer === undefined ? [] : heldKeys(request, consumer);
    const { runsAt } = request;
    const started = runsAt === undefined ? '' : JSON.stringify(runsAt);
    const first = request.isFirst === true ? '1' : '';
    const rest = [celeryResultMs, pack(held), started, first, packRunnable(request)];
    await this.#generation.shown();
    for (let tries = 1; ; tries++) {
      const args = [...beginArguments(request, this.#generation.known, this.#manner.rank), ...rest];
      const [status, ...parts] = (await this.#run(script, ...args)) as readonly unknown[];
      const word = String(status);
      if (word === 'closed') return { status: 'closed' };
      if (word === 'open')
        return await this.#readBegun(request, parts as unknown as BeginReplyParts);
      if (tries === MAX_TRIES) throw this.#generation.restless();
      await this.#generation.settle();
    }
  }

  async #readBegun(request: BeginRequest, parts: BeginReplyParts): Promise<BeginReply> {
    const { reply, broken } = readBeginReply(request, parts, this.#manner.rank);
    if (broken.length === 0) return reply;
    const unreadable = await isolateRecords(this.#connection, this.#root, { ids: broken });
    // There may be more behind them.
    return { ...reply, unreadable, nextDueMs: reply.begun.length === 0 ? 0 : null };
  }

  async renew(worker: string): Promise<RenewReply> {
    const reply = (await this.#run(LUA.ledgerRenew, worker)) as readonly unknown[];
    const [status, fields] = reply as readonly [Buffer, readonly Buffer[] | undefined];
    if (String(status) === 'closed' || fields === undefined) return { status: 'closed' };
    return { status: 'open', runs: readRuns(fields) };
  }

  async checkpoint(run: RunRef, seq: number, data: Uint8Array): Promise<StepStatus> {
    const { id, epoch } = run;
    return statusOf(await this.#runFor([id], LUA.ledgerCheckpoint, id, epoch, run.run, seq, data));
  }

  async raiseEpoch({ id, epoch, run }: RunRef, above: number): Promise<RaiseReply> {
    return raiseReplyOf(await this.#runFor([id], LUA.ledgerRaiseEpoch, id, epoch, run, above));
  }

  async commit(items: readonly CommitItem[]): Promise<readonly StepStatus[]> {
    const done = await this.#commitNew(items.filter(isOfNew));
    const others = done.size === items.length ? [] : items.filter(item => !done.has(item));
    if (done.size > 0 && others.length > 0)
      await this.#options.faultPoint?.('ledger.committed-in-part');
    const partsOf = (item: CommitItem): Packable => commitParts(item, this.#manner);
    const slices = sliced(others, bytesOfCommit);
    const statuses = (await this.#settle(LUA.ledgerCommit, slices, partsOf)).values();
    return items.map(item => (done.has(item) ? 'ok' : (statuses.next().value as StepStatus)));
  }

  /** Ends tasks without reading their records; returns those it ended. */
  async #commitNew(items: readonly NewCommit[]): Promise<ReadonlySet<CommitItem>> {
    const { celeryResultMs } = this.#options;
    const done = new Set<CommitItem>();
    for (const some of sliced(items, bytesOfCommit)) {
      const batches = pack(newCommitParts(some, this.#manner));
      const reply = await this.#run(LUA.ledgerCommitNew, batches, celeryResultMs);
      for (const [index, isDone] of (reply as readonly number[]).entries())
        if (isDone === 1) done.add(some[index] as CommitItem);
    }
    return done;
  }

  async fail(items: readonly FailItem[]): Promise<readonly StepStatus[]> {
    return await this.#settle(LUA.ledgerFail, slicesOf(items, CHUNK), item => [
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
    return await this.#inSlices(LUA.ledgerRelease, slicesOf(items, CHUNK), partsOf, []);
  }

  async wake(ids: readonly string[]): Promise<void> {
    for (const some of slicesOf(ids, CHUNK)) await this.#runFor(some, LUA.ledgerWake, pack(some));
  }

  async bury(items: readonly BuryItem[]): Promise<readonly StepStatus[]> {
    const runs = items.filter(item => item.kind === 'run');
    const messages = items.filter(item => item.kind === 'message');
    const ofRuns = await this.#settle(
      LUA.ledgerBuryRuns,
      slicesOf(runs, CHUNK),
      ({ ref, error, reason }) => [...refParts(ref), encodeError(error), reason],
    );
    const ofMessages = await this.#inSlices(
      LUA.ledgerBuryMessages,
      sliced(messages, bytesOfBury),
      ({ envelope, reason, error }) => [
        messageParts(envelope, this.#manner.rank),
        reason,
        encodeError(error),
      ],
      [],
    );
    const [run, message] = [ofRuns.values(), ofMessages.values()];
    return items.map(({ kind }) => (kind === 'run' ? run : message).next().value as StepStatus);
  }

  async park(items: readonly ParkItem[]): Promise<void> {
    const script = this.#options.beginsWhenFull ? LUA.ledgerParkFull : LUA.ledgerPark;
    // Also without items: a full server refuses then as well.
    const slices = sliced(items, ({ envelope }) => bytesOfEnvelope(envelope));
    for (const some of items.length === 0 ? [items] : slices) {
      const parts = some.map(({ envelope, delayMs, refusedBy }) => [
        messageParts(envelope, this.#manner.rank),
        delayMs === null ? false : Math.max(0, Math.round(delayMs)),
        `${envelope.id}#${envelope.digest.slice(0, 16)}`,
        refusedBy ?? false,
      ]);
      await this.#runFor(
        some.map(({ envelope }) => envelope.id),
        script,
        pack(parts),
      );
    }
  }

  /** Runs of an earlier generation, unknown in this one: their record was lost, they did not expire. */
  async rescue(runs: readonly LostRun[]): Promise<void> {
    await this.#generation.settle();
    const { known } = this.#generation;
    const lost = runs.filter(({ epoch }) => generationOf(epoch) < known);
    if (lost.length > 0) await this.park(lost.map(({ envelope }) => ({ envelope, delayMs: 0 })));
  }

  async condemn(target: CondemnTarget): Promise<CondemnReply> {
    const death = encodeDeath(deathBy(target));
    if (target.kind === 'worker') return await this.#condemnWorkers([target.worker], death, '0');
    return readCondemned(
      target.kind === 'expired'
        ? await this.#run(LUA.ledgerCondemnExpired, death, encodeDeath(HOST_LOST))
        : await this.#run(LUA.ledgerCondemnProcess, target.process, death),
    );
  }

  /** Closes incarnations that were closed elsewhere, also those that may still be opening here. */
  async closeAsWell(workers: readonly string[], death: Death): Promise<CondemnReply> {
    return await this.#condemnWorkers(workers, encodeDeath(death), '1');
  }

  async #condemnWorkers(
    workers: readonly string[],
    death: string,
    unknownToo: '0' | '1',
  ): Promise<CondemnReply> {
    return readCondemned(
      await this.#run(LUA.ledgerCondemnWorkers, unknownToo, pack(workers), death),
    );
  }

  async reap(limit: number): Promise<ReapReply> {
    const most = Math.min(limit, CHUNK);
    const reply = await this.#runFor([], LUA.ledgerReap, most, this.#options.celeryResultMs);
    return readReaped(reply, most);
  }

  async revive(id: string, version: number): Promise<ReviveStatus> {
    const isTold = this.#options.celeryResultMs > 0 ? '1' : '0';
    return revivalOf(await this.#runFor([id], LUA.ledgerRevive, id, version, isTold));
  }

  async purgeDead(request: PurgeRequest): Promise<PurgeReply> {
    return await purgeDead(this.#connection, [this.#root], request);
  }

  async cancel(id: string): Promise<CancelStatus> {
    return (await this.#cancel(id, 'leave')) === 1 ? 'ok' : 'terminal';
  }

  /** Cancels a task known here; null: it is unknown, and no tombstone was left. */
  async cancelKnown(id: string): Promise<CancelStatus | null> {
    const status = await this.#cancel(id, 'known');
    return status === 3 ? null : status === 1 ? 'ok' : 'terminal';
  }

  /** Leaves a copy of a tombstone that is stored and counted elsewhere. */
  async cancelAsWell(id: string): Promise<CancelStatus> {
    return (await this.#cancel(id, 'copy')) === 1 ? 'ok' : 'terminal';
  }

  async #cancel(id: string, how: 'leave' | 'known' | 'copy'): Promise<unknown> {
    return await this.#runFor([id], LUA.ledgerCancel, id, how, this.#options.celeryResultMs);
  }

  /** Tombstones expire by themselves; they were counted when they were written. */
  async prune(): Promise<number> {
    await ageTallies(this.#connection, this.#root);
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

  /** A step that may end a task, and then also publishes it for Celery. */
  async #settle<Item>(
    script: LuaScript,
    slices: readonly (readonly Item[])[],
    partsOf: (item: Item) => Packable,
  ): Promise<readonly StepStatus[]> {
    return await this.#inSlices(script, slices, partsOf, [this.#options.celeryResultMs]);
  }

  async #inSlices<Item>(
    script: LuaScript,
    slices: readonly (readonly Item[])[],
    partsOf: (item: Item) => Packable,
    rest: readonly RedisArgument[],
  ): Promise<readonly StepStatus[]> {
    const statuses: StepStatus[] = [];
    for (const some of slices) {
      const parts = some.map(partsOf);
      const reply = await this.#runFor(parts.map(idOf), script, pack(parts), ...rest);
      statuses.push(...(reply as readonly unknown[]).map(statusOf));
    }
    return statuses;
  }

  /** A step about these tasks: one with an unreadable record does not block the others. */
  async #runFor(
    ids: readonly string[],
    script: LuaScript,
    ...args: readonly RedisArgument[]
  ): Promise<unknown> {
    const step = (): Promise<unknown> => this.#run(script, ...args);
    return await withIsolation(this.#connection, this.#root, { ids }, step);
  }

  async #run(script: LuaScript, ...args: readonly RedisArgument[]): Promise<unknown> {
    return await this.#connection.script(script, [this.#root], args);
  }
}

const refParts = ({ id, epoch, run }: RunRef): Packable[] => [id, epoch, run];
