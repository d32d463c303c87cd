import { systemRandom } from '../../runtime/runtime.ts';
import { slicesOf } from '../../runtime/wakeable.ts';
import { LUA } from './lua.generated.ts';
import type { RedisConnection } from './redis-connection.ts';
import { queueKeys } from './redis-keys.ts';

/** An element that was moved from a list into our hash. */
export interface TakenElement {
  readonly tag: string;
  readonly queue: string;
  readonly listIndex: number;
  readonly bytes: Uint8Array;
}

/** What one call has taken, and the queues whose node did not answer; of them nothing is known. */
export interface Taken {
  readonly elements: readonly TakenElement[];
  readonly silent: ReadonlySet<string>;
}

const NO_QUEUES: ReadonlySet<string> = new Set();

export interface RedisHoldOptions {
  /** The name of our hashes and our lease. */
  readonly consumer: string;
  readonly leaseMs: number;
}

/** A lease survives four failed heartbeats. */
const BEATS_PER_LEASE = 5;
/** Elements that one call puts back or releases: a script blocks the server while it runs. */
const CALL_LIMIT = 500;
/** Two values each: fits on Lua's stack with a margin. */
const TAKE_LIMIT = 1_000;
/** A queue whose node let us wait is left alone for this many times as long, while others have something. */
const REST_FACTOR = 2;

/**
 * What one consumer holds: elements in a Redis hash, under a lease, and their tags here.
 *
 * The two may differ. Elements unknown to this process (the reply to a `take` was lost, or an acknowledgement failed)
 * are given back by the next heartbeat. Tags no longer in the hash were put back by other consumers, because the lease
 * was over: acknowledging them changes nothing.
 */
export class RedisHold {
  readonly #connection: RedisConnection;
  readonly #consumer: string;
  readonly #leaseMs: number;
  /** The queue of every tag delivered here, until the server has released it. */
  readonly #known = new Map<string, string>();
  /** Tokens of `take` calls without a reply yet, with their queues: heartbeats leave their tags alone. */
  readonly #asked = new Map<string, readonly string[]>();
  /** Queues in which we may hold elements unknown to this process. */
  readonly #doubtful = new Set<string>();
  /** On a cluster: queues that are not asked before this moment. */
  readonly #restsUntil = new Map<string, number>();
  /** Renewals without an answer yet, by queue. */
  readonly #renewals = new Map<string, Promise<void>>();
  #timer: NodeJS.Timeout | undefined;
  #isClosed = false;

  constructor(connection: RedisConnection, options: RedisHoldOptions) {
    this.#connection = connection;
    this.#consumer = options.consumer;
    this.#leaseMs = options.leaseMs;
  }

  async take(queues: readonly string[], limit: number): Promise<Taken> {
    if (!this.#connection.isCluster)
      return { elements: await this.#takeFrom(queues, limit), silent: NO_QUEUES };
    return await this.#takeApart(queues, limit);
  }

  /**
   * Queues live on different nodes, and a script runs on one of them. What one node has given must be returned, whatever
   * happens to the next one: it is ours, so no other consumer will ever have it.
   */
  async #takeApart(queues: readonly string[], limit: number): Promise<Taken> {
    const elements: TakenElement[] = [];
    const silent = new Map<string, number>();
    let answers = 0;
    let failure: Error | undefined;
    for (const queue of queues) {
      const from = performance.now();
      if (elements.length >= limit) break;
      if (from < (this.#restsUntil.get(queue) ?? -Infinity)) silent.set(queue, 0);
      else
        try {
          elements.push(...(await this.#takeFrom([queue], limit - elements.length)));
          answers += 1;
        } catch (error) {
          failure = error as Error;
          silent.set(queue, performance.now() - from);
        }
    }
    if (elements.length === 0 && failure !== undefined) {
      this.#rest(answers > 0 ? silent : new Map());
      throw failure;
    }
    this.#rest(silent);
    return { elements, silent: new Set(silent.keys()) };
  }

  #rest(silent: ReadonlyMap<string, number>): void {
    const now = performance.now();
    for (const [queue, waitedMs] of silent)
      if (waitedMs > 0) this.#restsUntil.set(queue, now + REST_FACTOR * waitedMs);
  }

  async #takeFrom(queues: readonly string[], limit: number): Promise<readonly TakenElement[]> {
    // 72 bits of it, because it is part of every tag.
    const token = systemRandom.token().slice(0, 18);
    const keys = queues.flatMap(queue => {
      const { lists, leases, heldPrefix } = this.#keys(queue);
      return [...lists, leases, heldPrefix];
    });
    const most = Math.min(limit, TAKE_LIMIT);
    this.#asked.set(token, queues);
    try {
      const args = [this.#consumer, token, this.#leaseMs, most, CALL_LIMIT];
      const reply = await this.#connection.script(LUA.take, keys, args);
      const taken = readTaken(reply as TakeReply, queues, token);
      for (const { tag, queue } of taken) this.#known.set(tag, queue);
      return taken;
    } catch (error) {
      // The call may have succeeded all the same.
      for (const queue of queues) this.#doubtful.add(queue);
      throw error;
    } finally {
      this.#asked.delete(token);
      this.#keepBeating();
    }
  }

  /** Removes elements. One that is no longer in the hash was put back for other consumers: it is left alone. */
  async acknowledge(tags: readonly string[]): Promise<void> {
    await this.#letGo(tags, async (queue, ours) => {
      for (const some of slicesOf(ours, CALL_LIMIT))
        await this.#connection.command('hdel', this.#held(queue), ...some);
    });
  }

  /** Another step on the same server has released these. */
  forget(tags: readonly string[]): void {
    for (const tag of tags) this.#known.delete(tag);
  }

  /** Puts elements back at the heads of their lists. */
  async giveBack(tags: readonly string[]): Promise<void> {
    await this.#letGo(tags, (queue, ours) => this.#putBack(queue, ours));
  }

  /** The last ones first: each call puts its elements at the heads of the lists. */
  async #putBack(queue: string, tags: readonly string[]): Promise<void> {
    const keys = [...this.#keys(queue).lists, this.#held(queue)];
    for (const some of slicesOf(tags.toSorted(), CALL_LIMIT).toReversed())
      await this.#connection.script(LUA.giveBack, keys, some);
  }

  async #letGo(
    tags: readonly string[],
    step: (queue: string, tags: readonly string[]) => Promise<void>,
  ): Promise<void> {
    const byQueue = new Map<string, string[]>();
    for (const tag of tags) {
      const queue = this.#known.get(tag);
      if (queue !== undefined) byQueue.set(queue, [...(byQueue.get(queue) ?? []), tag]);
    }
    const steps = [...byQueue].map(async ([queue, ours]) => {
      try {
        await step(queue, ours);
      } catch (error) {
        this.#doubtful.add(queue);
        throw error;
      } finally {
        // Not earlier: a heartbeat in between would take them for unknown ones and give them back.
        for (const tag of ours) this.#known.delete(tag);
      }
    });
    const failed = (await Promise.allSettled(steps)).find(({ status }) => status === 'rejected');
    if (failed?.status === 'rejected') throw failed.reason;
  }

  /** Gives back everything at once; what cannot be reached now returns when the lease is over. */
  async close(): Promise<void> {
    this.#isClosed = true;
    clearTimeout(this.#timer);
    const asked = [...this.#asked.values()].flat();
    const queues = new Set([...this.#known.values(), ...this.#doubtful, ...asked]);
    this.#known.clear();
    const releases = [...queues].map(async queue => {
      const { lists, leases } = this.#keys(queue);
      const keys = [...lists, leases, this.#held(queue)];
      const args = [this.#consumer, CALL_LIMIT];
      while ((await this.#connection.script(LUA.release, keys, args)) === CALL_LIMIT);
    });
    await Promise.allSettled(releases);
  }

  #keepBeating(): void {
    const isIdle = this.#known.size === 0 && this.#doubtful.size === 0;
    if (this.#timer !== undefined || isIdle || this.#isClosed) return;
    this.#timer = setTimeout(() => {
      this.#timer = undefined;
      void this.beat();
      this.#keepBeating();
    }, this.#leaseMs / BEATS_PER_LEASE).unref();
  }

  /**
   * Renews the leases of queues we hold elements of. The next heartbeat makes up for a failed one, and does not wait for one
   * that a silent node of a cluster has not answered: the leases on other nodes would end meanwhile.
   */
  async beat(): Promise<void> {
    const queues = new Set([...this.#known.values(), ...this.#doubtful]);
    await Promise.allSettled([...queues].map(queue => this.#renewOnce(queue)));
  }

  #renewOnce(queue: string): Promise<void> {
    const before = this.#renewals.get(queue);
    if (before !== undefined) return before;
    const renewal = this.#renew(queue).finally(() => this.#renewals.delete(queue));
    this.#renewals.set(queue, renewal);
    return renewal;
  }

  async #renew(queue: string): Promise<void> {
    const before = [...this.#known].filter(([, other]) => other === queue).map(([tag]) => tag);
    const keys = [this.#keys(queue).leases, this.#held(queue)];
    const reply = await this.#connection.script(LUA.renew, keys, [this.#consumer, this.#leaseMs]);
    const tags = new Set((reply as readonly Buffer[]).map(String));
    for (const tag of before) if (!tags.has(tag)) this.#known.delete(tag);
    const strays = [...tags].filter(tag => !this.#known.has(tag) && !this.#isAsked(tag));
    await this.#putBack(queue, strays);
    this.#doubtful.delete(queue);
  }

  #isAsked(tag: string): boolean {
    return this.#asked.has(tag.slice(tag.lastIndexOf('.') + 1));
  }

  #keys(queue: string): ReturnType<typeof queueKeys> {
    return queueKeys(queue, this.#connection.isCluster);
  }

  #held(queue: string): string {
    return this.#keys(queue).heldPrefix + this.#consumer;
  }
}

/** The prefix of the tags, then four values for each list that elements were taken from. */
type TakeReply = readonly [stamp: Buffer, ...(number | readonly Buffer[])[]];

/** Indexes count from 1. A tag is composed as the script does it, so the script need not return it. */
function readTaken(reply: TakeReply, queues: readonly string[], token: string): TakenElement[] {
  const taken: TakenElement[] = [];
  const [stamp, ...lists] = reply;
  const start = String(stamp);
  for (let at = 0; at < lists.length; at += 4) {
    const [queueIndex, step, first] = lists.slice(at, at + 3) as [number, number, number];
    const queue = queues[queueIndex - 1] ?? '';
    for (const [index, bytes] of (lists[at + 3] as readonly Buffer[]).entries())
      taken.push({
        queue,
        listIndex: step - 1,
        tag: `${start}${first + index}.${step}.${token}`,
        bytes,
      });
  }
  return taken;
}
