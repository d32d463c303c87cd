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
  RefusedPage,
  ReleaseItem,
  RenewReply,
  RunRef,
  StepStatus,
  WorkerOpening,
} from '../../ledger/ledger.ts';
import { type Death, LEASE_LOST, LEFT, deathBy } from '../../ledger/death.ts';
import type { PurgeReply, PurgeRequest, ReviveStatus } from '../../outbox/outbox-store.ts';
import { beginInParts } from './redis-begin.ts';
import { RedisCancels } from './redis-cancels.ts';
import { RedisChords } from './redis-chords.ts';
import { clusterAfterLog } from './redis-after.ts';
import type { RedisConnection } from './redis-connection.ts';
import { RedisHints } from './redis-publish.ts';
import type { RedisLedger } from './redis-ledger.ts';
import type { RedisPartitions } from './redis-partitions.ts';
import { purgeDead } from './redis-purge.ts';
import { better } from './redis-replies.ts';

/** Tasks with a remembered queue, and incarnations: many more than a process has. */
const MOST_REMEMBERED = 100_000;
const MOST_OPENED = 1_000;
/**
 * The ledger on a cluster, composed of one ledger per queue. Each step is atomic within its queue.
 *
 * An incarnation has a row in the home from the start, and one in every queue it begins tasks of. Every heartbeat renews
 * all of them, and they are closed together. A task known only by id is looked up where this process began it, or else
 * in every queue.
 */
export class RedisClusterLedger implements Ledger {
  readonly after: AfterLog;
  readonly refusals: RefusalLog;
  readonly chords: RedisChords;
  readonly #connection: RedisConnection;
  readonly #parts: RedisPartitions;
  readonly #cancels: RedisCancels;
  readonly #hints: RedisHints;
  /** Incarnations opened by this process, and their queues. */
  readonly #openings = new Map<string, { opening: WorkerOpening; queues: Set<string> }>();
  readonly #registered = new Set<string>();
  readonly #queueOf = new Map<string, string>();

  constructor(connection: RedisConnection, parts: RedisPartitions) {
    this.#connection = connection;
    this.#parts = parts;
    this.#cancels = new RedisCancels(connection, parts);
    this.chords = new RedisChords(connection, {
      index: `${parts.homeRoot}chords`,
      keyOf: groupId => parts.chordKey(groupId),
      celeryResultMs: 0,
    });
    this.#hints = new RedisHints(connection, parts.readyPattern);
    this.after = clusterAfterLog(() => this.#parts.all());
    this.refusals = this.#refusalsEverywhere();
  }

  /** Each is in one queue: the others do not know it. */
  #refusalsEverywhere(): RefusalLog {
    const best = async (call: (part: RedisLedger) => Promise<StepStatus>): Promise<StepStatus> =>
      (await this.#everywhere(call)).reduce(better, 'absent' as StepStatus);
    return {
      list: (limit, after) => this.#listRefused(limit, after),
      bury: (id, error) => best(part => part.refusals.bury(id, error)),
      handBack: (id, mark) => best(part => part.refusals.handBack(id, mark)),
    };
  }

  /** An equal part of each queue, from where the previous page ended there; null: at its end. */
  async #listRefused(limit: number, after: string | undefined): Promise<RefusedPage> {
    const parts = await this.#parts.all();
    const before = after === undefined ? [] : (JSON.parse(after) as readonly (string | null)[]);
    const share = Math.ceil(limit / Math.max(1, parts.length));
    const pages = await Promise.all(
      parts.map(async (part, position) => {
        const from = before[position];
        if (from === null) return { tasks: [], next: null };
        return await part.refusals.list(share, from);
      }),
    );
    const next = pages.map(page => page.next);
    const tasks = pages.flatMap(page => page.tasks).sort((a, b) => b.waitedMs - a.waitedMs);
    return { tasks, next: next.some(one => one !== null) ? JSON.stringify(next) : null };
  }

  async open(opening: WorkerOpening): Promise<void> {
    await this.#parts.home.open(opening);
    // The previous one may have been closed because the node that lists all queues lost its memory.
    this.#registered.clear();
    const [oldest] = this.#openings.keys();
    if (oldest !== undefined && this.#openings.size >= MOST_OPENED) this.#openings.delete(oldest);
    if (!this.#openings.has(opening.worker)) {
      this.#openings.set(opening.worker, { opening, queues: new Set() });
    }
  }

  async begin(request: BeginRequest): Promise<BeginReply> {
    const reply = await beginInParts(request, async (queue, part) => {
      // No queue is read; this only checks whether the worker may begin.
      if (queue === null) return await this.#parts.home.begin(part);
      if (!(await this.#join(request.worker, queue))) return { status: 'closed' };
      return await this.#parts.of(queue).begin(part);
    });
    if (reply.status === 'closed') {
      await this.#closeEverywhere([request.worker], LEFT);
      return reply;
    }
    if (this.#queueOf.size > MOST_REMEMBERED) this.#queueOf.clear();
    for (const { id, envelope } of reply.begun) this.#queueOf.set(id, envelope.queue);
    return reply;
  }

  /**
   * Opens the incarnation in a queue before it begins tasks there, and records the queue in the home, whose list
   * heartbeats follow. False: it was closed. A process that closes it does so in the home first, then in every
   * registered queue; we register the queue first and read the home last. One of the two sees the other.
   */
  async #join(worker: string, queue: string): Promise<boolean> {
    await this.#register(queue);
    const opened = this.#openings.get(worker);
    if (opened === undefined || opened.queues.has(queue)) return true;
    await this.#parts.of(queue).open(opened.opening);
    const [deadline] = await Promise.all([
      this.#connection.command('zscore', `${this.#parts.homeRoot}leases`, worker),
      this.#connection.command('sadd', this.#queuesOf(worker), queue),
    ]);
    if (deadline === null) return false;
    opened.queues.add(queue);
    return true;
  }

  /** A newly registered queue gets the tombstones of earlier cancellations. */
  async #register(queue: string): Promise<void> {
    if (this.#registered.has(queue)) return;
    const isNew = await this.#parts.register(queue);
    if (isNew) await this.#cancels.copyTo(queue);
    this.#registered.add(queue);
  }

  async renew(worker: string): Promise<RenewReply> {
    const [atHome, members] = await Promise.all([
      this.#parts.home.renew(worker),
      this.#connection.command('smembers', this.#queuesOf(worker)),
    ]);
    if (atHome.status === 'closed') return atHome;
    const queues = (members as readonly Buffer[]).map(String);
    const replies = await Promise.all(queues.map(queue => this.#parts.of(queue).renew(worker)));
    const runs = replies.flatMap(reply => (reply.status === 'open' ? (reply.runs ?? []) : []));
    if (replies.every(({ status }) => status === 'open')) return { status: 'open', runs };
    // Part of it is dead, and it will release the rest: other workers should not wait for its lease.
    await this.#closeEverywhere([worker], LEASE_LOST);
    return { status: 'closed' };
  }

  async checkpoint(run: RunRef, seq: number, data: Uint8Array): Promise<StepStatus> {
    const idOf = ({ id }: RunRef): string => id;
    const store = async (part: RedisLedger) => [await part.checkpoint(run, seq, data)];
    return (await this.#inTheirQueues([run], idOf, store))[0] ?? 'absent';
  }

  async raiseEpoch(run: RunRef, above: number): Promise<RaiseReply> {
    let raised: RaiseReply = { status: 'absent' };
    const raise = async (part: RedisLedger): Promise<StepStatus[]> => {
      const reply = await part.raiseEpoch(run, above);
      if (better(raised.status, reply.status) === reply.status) raised = reply;
      return [reply.status];
    };
    await this.#inTheirQueues([run], ({ id }) => id, raise);
    return raised;
  }

  async commit(items: readonly CommitItem[]): Promise<readonly StepStatus[]> {
    return await this.#settle(
      items,
      ({ ref }) => ref.id,
      (part, some) => part.commit(some),
    );
  }

  async fail(items: readonly FailItem[]): Promise<readonly StepStatus[]> {
    return await this.#settle(
      items,
      ({ ref }) => ref.id,
      (part, some) => part.fail(some),
    );
  }

  async release(items: readonly ReleaseItem[]): Promise<readonly StepStatus[]> {
    return await this.#settle(
      items,
      ({ id }) => id,
      (part, some) => part.release(some),
    );
  }

  /** The process that wakes a task is seldom the one that began it: look in every queue. */
  async wake(ids: readonly string[]): Promise<void> {
    if (ids.length > 0) await this.#everywhere(part => part.wake(ids));
  }

  async bury(items: readonly BuryItem[]): Promise<readonly StepStatus[]> {
    const messages = items.filter(item => item.kind === 'message');
    for (const { envelope } of messages) {
      await this.#register(envelope.queue);
      this.#queueOf.set(envelope.id, envelope.queue);
    }
    const idOf = (item: BuryItem): string => (item.kind === 'run' ? item.ref.id : item.envelope.id);
    return await this.#settle(items, idOf, (part, some) => part.bury(some));
  }

  async #settle<Item>(
    items: readonly Item[],
    idOf: (item: Item) => string,
    call: (part: RedisLedger, items: readonly Item[]) => Promise<readonly StepStatus[]>,
  ): Promise<readonly StepStatus[]> {
    const statuses = await this.#inTheirQueues(items, idOf, call);
    for (const item of items) this.#queueOf.delete(idOf(item));
    return statuses;
  }

  /** Each item in the queue where this process began its task, or else in every queue. */
  async #inTheirQueues<Item>(
    items: readonly Item[],
    idOf: (item: Item) => string,
    call: (part: RedisLedger, items: readonly Item[]) => Promise<readonly StepStatus[]>,
  ): Promise<readonly StepStatus[]> {
    const statuses: StepStatus[] = items.map(() => 'absent');
    const positions = new Map<string, number[]>();
    const add = (queue: string, position: number): void => {
      positions.set(queue, [...(positions.get(queue) ?? []), position]);
    };
    const known = items.map(item => this.#queueOf.get(idOf(item)));
    const others = known.includes(undefined) ? await this.#parts.queues() : [];
    for (const [position, queue] of known.entries()) {
      for (const one of queue === undefined ? others : [queue]) add(one, position);
    }
    const calls = [...positions].map(async ([queue, ours]) => {
      const some = ours.map(position => items[position] as Item);
      const answers = await call(this.#parts.of(queue), some);
      for (const [index, position] of ours.entries()) {
        statuses[position] = better(statuses[position] ?? 'absent', answers[index] ?? 'absent');
      }
    });
    await Promise.all(calls);
    return statuses;
  }

  async park(items: readonly ParkItem[]): Promise<void> {
    const byQueue = new Map<string, ParkItem[]>();
    for (const item of items) {
      const { queue } = item.envelope;
      byQueue.set(queue, [...(byQueue.get(queue) ?? []), item]);
    }
    const parks = [...byQueue].map(async ([queue, some]) => {
      await this.#register(queue);
      await this.#parts.of(queue).park(some);
    });
    await Promise.all(parks);
    if (items.length === 0) await this.#everywhere(part => part.park([]));
  }

  async rescue(runs: readonly LostRun[]): Promise<void> {
    for (const run of runs) {
      const { queue } = run.envelope;
      await this.#register(queue);
      await this.#parts.of(queue).rescue([run]);
    }
  }

  async condemn(target: CondemnTarget): Promise<CondemnReply> {
    const atHome = await this.#parts.home.condemn(target);
    const replies = await this.#everywhere(part => part.condemn(target));
    const deaths = new Map(
      [atHome, ...replies].flatMap(reply =>
        reply.workers.map((worker, at) => [worker, reply.deaths[at] ?? null] as const),
      ),
    );
    const workers = [...deaths.keys()];
    if (workers.length > 0) await this.#closeEverywhere(workers, deathBy(target));
    return { workers, deaths: [...deaths.values()], storeMs: atHome.storeMs };
  }

  /** One of them may still be opening in a queue it had nothing of: it must find itself closed. */
  async #closeEverywhere(workers: readonly string[], death: Death): Promise<void> {
    const parts = [this.#parts.home, ...(await this.#parts.all(true))];
    await Promise.all(parts.map(part => part.closeAsWell(workers, death)));
    await Promise.all(
      workers.map(worker => this.#connection.command('del', this.#queuesOf(worker))),
    );
  }

  async reap(limit: number): Promise<ReapReply> {
    const { storeMs } = await this.#parts.home.reap(0);
    const returned: ReapReply['returned'][number][] = [];
    const buried: ReapReply['buried'][number][] = [];
    let left = limit;
    for (const part of limit > 0 ? await this.#parts.all() : []) {
      if (left === 0) break;
      const reply = await part.reap(left);
      returned.push(...reply.returned);
      buried.push(...reply.buried);
      left = limit - returned.length - buried.length;
    }
    return { returned, buried, more: left === 0, storeMs };
  }

  async revive(id: string, version: number): Promise<ReviveStatus> {
    let status: ReviveStatus = 'absent';
    for (const part of await this.#parts.all()) {
      status = better(status, await part.revive(id, version));
      if (status === 'ok') break;
    }
    return status;
  }

  async purgeDead(request: PurgeRequest): Promise<PurgeReply> {
    return await purgeDead(this.#connection, await this.#parts.roots(), request);
  }

  async cancel(id: string): Promise<CancelStatus> {
    return await this.#cancels.cancel(id);
  }

  async prune(limit: number): Promise<number> {
    await this.#cancels.prune(limit);
    for (const part of await this.#parts.all()) await part.prune();
    return 0;
  }

  /** Its parts are tasks of any queue: it has its own hash slot. */
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

  async #everywhere<T>(call: (part: RedisLedger) => Promise<T>): Promise<T[]> {
    return await Promise.all((await this.#parts.all()).map(call));
  }

  #queuesOf(worker: string): string {
    return `${this.#parts.homeRoot}of:${worker}`;
  }
}
