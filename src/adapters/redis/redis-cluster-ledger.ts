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
import type { PurgeReply, PurgeRequest, ReviveStatus } from '../../outbox/outbox-store.ts';
import { beginInParts } from './redis-begin-in-parts.ts';
import { RedisCancels } from './redis-cancels.ts';
import { RedisChords } from './redis-chords.ts';
import type { RedisConnection } from './redis-connection.ts';
import { RedisHints } from './redis-hints.ts';
import type { RedisLedger } from './redis-ledger.ts';
import type { RedisPartitions } from './redis-partitions.ts';
import { purgeDead } from './redis-purge.ts';
import { better } from './redis-replies.ts';

/** Tasks whose queue is remembered, and incarnations: many more than a process has. */
const MOST_REMEMBERED = 100_000;
const MOST_OPENED = 1_000;
/**
 * The ledger on a cluster: a ledger for each queue, put together. Each step is atomic within its queue.
 *
 * An incarnation has a row in the home from the beginning, and one with every queue it begins something of; each is
 * renewed by every beat, and closed with all others. What is known by its id alone is looked for where this process
 * began it, or else in every queue.
 */
export class RedisClusterLedger implements Ledger {
  readonly after: AfterLog;
  readonly chords: RedisChords;
  readonly #connection: RedisConnection;
  readonly #parts: RedisPartitions;
  readonly #cancels: RedisCancels;
  readonly #hints: RedisHints;
  /** Incarnations that this process opened, and where. */
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
    this.after = {
      list: async (olderThanMs, limit) => {
        const lists = await this.#everywhere(part => part.after.list(olderThanMs, limit));
        return lists.flat().slice(0, limit);
      },
      strike: async keys => void (await this.#everywhere(part => part.after.strike(keys))),
    };
  }

  async open(opening: WorkerOpening): Promise<void> {
    await this.#parts.home.open(opening);
    // The one before may have been closed because the node that knows all queues has lost its memory.
    this.#registered.clear();
    const [oldest] = this.#openings.keys();
    if (oldest !== undefined && this.#openings.size >= MOST_OPENED) this.#openings.delete(oldest);
    if (!this.#openings.has(opening.worker)) {
      this.#openings.set(opening.worker, { opening, queues: new Set() });
    }
  }

  async begin(request: BeginRequest): Promise<BeginReply> {
    const reply = await beginInParts(request, async (queue, part) => {
      // Nothing is asked of any queue, only whether it may ask.
      if (queue === null) return await this.#parts.home.begin(part);
      if (!(await this.#join(request.worker, queue))) return { status: 'closed' };
      return await this.#parts.of(queue).begin(part);
    });
    if (reply.status === 'closed') {
      await this.#closeEverywhere([request.worker]);
      return reply;
    }
    if (this.#queueOf.size > MOST_REMEMBERED) this.#queueOf.clear();
    for (const { id, envelope } of reply.begun) this.#queueOf.set(id, envelope.queue);
    return reply;
  }

  /**
   * Opens the incarnation with a queue before it begins something there, and tells the home, whose list a beat follows.
   * False: it has been closed. Whoever closes it does so at home first and then with every queue that is known; we make
   * the queue known first and look at home last. One of the two sees the other.
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

  /** A queue that nobody used before is told what was cancelled before it came. */
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
    const runs = replies.flatMap(reply => (reply.status === 'open' ? reply.runs : []));
    if (replies.every(({ status }) => status === 'open')) return { status: 'open', runs };
    // A part of it is dead, and it will let go of the rest: others should not wait for its lease.
    await this.#closeEverywhere([worker]);
    return { status: 'closed' };
  }

  async checkpoint(run: RunRef, seq: number, data: Uint8Array): Promise<StepStatus> {
    const idOf = ({ id }: RunRef): string => id;
    const store = async (part: RedisLedger) => [await part.checkpoint(run, seq, data)];
    return (await this.#inTheirQueues([run], idOf, store))[0] ?? 'absent';
  }

  async lift(run: RunRef, above: number): Promise<LiftReply> {
    let lifted: LiftReply = { status: 'absent' };
    const lift = async (part: RedisLedger): Promise<StepStatus[]> => {
      const reply = await part.lift(run, above);
      if (better(lifted.status, reply.status) === reply.status) lifted = reply;
      return [reply.status];
    };
    await this.#inTheirQueues([run], ({ id }) => id, lift);
    return lifted;
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

  /** Whoever wakes a task is seldom the process that began it: it is looked for in every queue. */
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

  /** Each item where its task was begun by this process, or else in every queue. */
  async #inTheirQueues<Item>(
    items: readonly Item[],
    idOf: (item: Item) => string,
    call: (part: RedisLedger, items: readonly Item[]) => Promise<readonly StepStatus[]>,
  ): Promise<readonly StepStatus[]> {
    const statuses: StepStatus[] = items.map(() => 'absent');
    const places = new Map<string, number[]>();
    const add = (queue: string, place: number): void => {
      places.set(queue, [...(places.get(queue) ?? []), place]);
    };
    const known = items.map(item => this.#queueOf.get(idOf(item)));
    const others = known.includes(undefined) ? await this.#parts.queues() : [];
    for (const [place, queue] of known.entries()) {
      for (const one of queue === undefined ? others : [queue]) add(one, place);
    }
    const calls = [...places].map(async ([queue, ours]) => {
      const some = ours.map(place => items[place] as Item);
      const answers = await call(this.#parts.of(queue), some);
      for (const [index, place] of ours.entries()) {
        statuses[place] = better(statuses[place] ?? 'absent', answers[index] ?? 'absent');
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
    const workers = [...new Set([atHome, ...replies].flatMap(reply => reply.workers))];
    if (workers.length > 0) await this.#closeEverywhere(workers);
    return { workers, storeMs: atHome.storeMs };
  }

  /** An opening of theirs may still be on its way to a queue they had nothing of: it must find them closed. */
  async #closeEverywhere(workers: readonly string[]): Promise<void> {
    const parts = [this.#parts.home, ...(await this.#parts.all(true))];
    await Promise.all(parts.map(part => part.closeAsWell(workers)));
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
    return 0;
  }

  /** Its parts are tasks of any queue: it has a slot of its own. */
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
