import type { GenerationStore } from '../../ledger/generation-store.ts';
import type { RedisConnection } from './redis-connection.ts';
import { RedisGeneration } from './redis-generation.ts';
import type { RedisLedgerOptions } from './redis-ledger-options.ts';
import { RedisLedger } from './redis-ledger.ts';

/** The root of everything on a single server; on a cluster, the prefix of the queues' roots. */
export const ROOT = 'outlast:ledger:';
/** A queue that another process began to use is known after this long at the latest. */
const REMEMBER_MS = 1_000;

export interface PartitionsOptions extends RedisLedgerOptions {
  /** Distinguishes this cluster from others that the same database remembers. */
  readonly node: string;
  readonly generations: GenerationStore | null;
  /** Put in front of every key, for tests that share a cluster. */
  readonly prefix: string;
}

/**
 * The parts of a ledger on a cluster. A script may touch one hash slot, so every queue has its own ledger, whose keys
 * carry the queue in braces. One more, the home, has every incarnation, and the names of all queues.
 */
export class RedisPartitions {
  readonly home: RedisLedger;
  readonly homeRoot: string;
  readonly #connection: RedisConnection;
  readonly #options: PartitionsOptions;
  readonly #ledgers = new Map<string, RedisLedger>();
  #listed: { readonly at: number; readonly queues: readonly string[] } | null = null;

  constructor(connection: RedisConnection, options: PartitionsOptions) {
    this.#connection = connection;
    this.#options = options;
    this.homeRoot = `${options.prefix}outlast:home:{outlast}:`;
    this.home = this.#make(this.homeRoot, 'home');
  }

  of(queue: string): RedisLedger {
    const known = this.#ledgers.get(queue);
    if (known !== undefined) return known;
    const made = this.#make(this.#rootOf(queue), queue);
    this.#ledgers.set(queue, made);
    return made;
  }

  /** Registers a queue for all processes. True: it was not registered before. */
  async register(queue: string): Promise<boolean> {
    const added = await this.#connection.command('sadd', `${this.homeRoot}queues`, queue);
    this.#listed = null;
    return added === 1;
  }

  /** Every registered queue. */
  async queues(isFresh = false): Promise<readonly string[]> {
    const now = performance.now();
    if (!isFresh && this.#listed && now - this.#listed.at < REMEMBER_MS) return this.#listed.queues;
    const members = await this.#connection.command('smembers', `${this.homeRoot}queues`);
    const queues = [
      ...new Set([...(members as readonly Buffer[]).map(String), ...this.#ledgers.keys()]),
    ];
    this.#listed = { at: now, queues };
    return queues;
  }

  async all(isFresh = false): Promise<readonly RedisLedger[]> {
    return (await this.queues(isFresh)).map(queue => this.of(queue));
  }

  /** The home first. */
  async roots(isFresh = false): Promise<readonly string[]> {
    return [this.homeRoot, ...(await this.queues(isFresh)).map(queue => this.#rootOf(queue))];
  }

  /** Matches the channels of all queues. */
  get readyPattern(): string {
    return `${this.#options.prefix}${ROOT}{*}:ready`;
  }

  chordKey(groupId: string): string {
    return `${this.#options.prefix}outlast:chord:{${slotName(groupId)}}`;
  }

  #rootOf(queue: string): string {
    return `${this.#options.prefix}${ROOT}{${slotName(queue)}}:`;
  }

  #make(root: string, name: string): RedisLedger {
    const { generations, node } = this.#options;
    const location = { root, node: `${node}/${name}` };
    const generation = new RedisGeneration(this.#connection, location, generations);
    return new RedisLedger(this.#connection, root, generation, this.#options);
  }
}

/** The part in braces decides the hash slot; braces in the name would change it. */
function slotName(name: string): string {
  return name !== '' && !/[{}]/.test(name) ? name : `%${encodeURIComponent(name)}`;
}
