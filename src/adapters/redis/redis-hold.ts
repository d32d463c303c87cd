import { systemRandom } from '../../runtime/random.ts';
import { LUA } from './lua.generated.ts';
import type { RedisConnection } from './redis-connection.ts';
import { queueKeys } from './redis-keys.ts';

/** An element that was moved from a list into our hash. */
export interface TakenElement {
  readonly tag: string;
  readonly queue: string;
  readonly place: number;
  readonly bytes: Uint8Array;
}

export interface RedisHoldOptions {
  /** The name of our hashes and of our lease. */
  readonly consumer: string;
  readonly leaseMs: number;
}

/** A lease survives four beats that fail. */
const BEATS_PER_LEASE = 5;
/** Elements of a dead consumer that one call puts back for each queue: it holds the server for as long as it takes. */
const REAP_LIMIT = 500;
/** Two values each: what fits on Lua's stack with room to spare. */
const TAKE_LIMIT = 1_000;

/**
 * What one consumer holds: elements in a hash of Redis, under a lease, and their tags here.
 *
 * The two may differ. Elements that nobody here knows (the reply to a `take` was lost, or an acknowledgement failed) are
 * given back by the next beat. Tags that are not in the hash any more were put back by others, because the lease was
 * over: acknowledging them changes nothing.
 */
export class RedisHold {
  readonly #connection: RedisConnection;
  readonly #consumer: string;
  readonly #leaseMs: number;
  /** The queue of every tag that was delivered here, until the server has let it go. */
  readonly #known = new Map<string, string>();
  /** Tokens of calls to `take` that have no reply yet, with their queues: their tags are nobody's business. */
  readonly #asked = new Map<string, readonly string[]>();
  /** Queues in which we may hold something nobody knows of. */
  readonly #doubtful = new Set<string>();
  #timer: NodeJS.Timeout | undefined;
  #isClosed = false;

  constructor(connection: RedisConnection, options: RedisHoldOptions) {
    this.#connection = connection;
    this.#consumer = options.consumer;
    this.#leaseMs = options.leaseMs;
  }

  async take(queues: readonly string[], limit: number): Promise<readonly TakenElement[]> {
    if (!this.#connection.isCluster) return await this.#takeFrom(queues, limit);
    // Queues live on different nodes, and a script on one of them.
    const taken: TakenElement[] = [];
    for (const queue of queues) {
      if (taken.length < limit)
        taken.push(...(await this.#takeFrom([queue], limit - taken.length)));
    }
    return taken;
  }

  async #takeFrom(queues: readonly string[], limit: number): Promise<readonly TakenElement[]> {
    // 72 bits of it: it is part of every tag.
    const token = systemRandom.token().slice(0, 18);
    const keys = queues.flatMap(queue => {
      const { lists, leases, heldPrefix } = this.#keys(queue);
      return [...lists, leases, heldPrefix];
    });
    const most = Math.min(limit, TAKE_LIMIT);
    this.#asked.set(token, queues);
    try {
      const args = [this.#consumer, token, this.#leaseMs, most, REAP_LIMIT];
      const reply = await this.#connection.script(LUA.take, keys, args);
      const taken = readTaken(reply as TakeReply, queues, token);
      for (const { tag, queue } of taken) this.#known.set(tag, queue);
      return taken;
    } catch (error) {
      // It may have happened all the same.
      for (const queue of queues) this.#doubtful.add(queue);
      throw error;
    } finally {
      this.#asked.delete(token);
      this.#keepBeating();
    }
  }

  /** Forgets elements. What is not in the hash any more was put back for others: nothing happens to it. */
  async acknowledge(tags: readonly string[]): Promise<void> {
    await this.#letGo(tags, async (queue, ours) => {
      await this.#connection.command('hdel', this.#held(queue), ...ours);
    });
  }

  /** These have been let go by another step on the same server. */
  forget(tags: readonly string[]): void {
    for (const tag of tags) this.#known.delete(tag);
  }

  /** Puts elements back to the heads of their lists. */
  async giveBack(tags: readonly string[]): Promise<void> {
    await this.#letGo(tags, async (queue, ours) => {
      const keys = [...this.#keys(queue).lists, this.#held(queue)];
      await this.#connection.script(LUA.giveBack, keys, ours);
    });
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
        // Not before: a beat meanwhile would take them for forgotten ones and give them back.
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
      await this.#connection.script(LUA.release, keys, [this.#consumer]);
    });
    await Promise.allSettled(releases);
  }

  #keepBeating(): void {
    const isIdle = this.#known.size === 0 && this.#doubtful.size === 0;
    if (this.#timer !== undefined || isIdle || this.#isClosed) return;
    this.#timer = setTimeout(() => {
      void this.beat().finally(() => {
        this.#timer = undefined;
        this.#keepBeating();
      });
    }, this.#leaseMs / BEATS_PER_LEASE).unref();
  }

  /** Renews the leases of queues we hold something of. A beat that fails is made up for by the next. */
  async beat(): Promise<void> {
    const queues = new Set([...this.#known.values(), ...this.#doubtful]);
    await Promise.allSettled([...queues].map(queue => this.#renew(queue)));
  }

  async #renew(queue: string): Promise<void> {
    const before = [...this.#known].filter(([, other]) => other === queue).map(([tag]) => tag);
    const keys = [this.#keys(queue).leases, this.#held(queue)];
    const reply = await this.#connection.script(LUA.renew, keys, [this.#consumer, this.#leaseMs]);
    const tags = new Set((reply as readonly Buffer[]).map(String));
    for (const tag of before) if (!tags.has(tag)) this.#known.delete(tag);
    const strays = [...tags].filter(tag => !this.#known.has(tag) && !this.#isAsked(tag));
    if (strays.length > 0) {
      const lists = this.#keys(queue).lists;
      await this.#connection.script(LUA.giveBack, [...lists, this.#held(queue)], strays);
    }
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

/** What tags begin with, and then four values for each list that something was taken from. */
type TakeReply = readonly [stamp: Buffer, ...(number | readonly Buffer[])[]];

/** Places are counted from 1. A tag is put together as the script does it, which need not tell it then. */
function readTaken(reply: TakeReply, queues: readonly string[], token: string): TakenElement[] {
  const taken: TakenElement[] = [];
  const [stamp, ...lists] = reply;
  const start = String(stamp);
  for (let at = 0; at < lists.length; at += 4) {
    const [place, step, first] = lists.slice(at, at + 3) as [number, number, number];
    const queue = queues[place - 1] ?? '';
    for (const [index, bytes] of (lists[at + 3] as readonly Buffer[]).entries())
      taken.push({
        queue,
        place: step - 1,
        tag: `${start}${first + index}.${step}.${token}`,
        bytes,
      });
  }
  return taken;
}
