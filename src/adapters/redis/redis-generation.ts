import { createHash, randomBytes } from 'node:crypto';
import type { GenerationStore } from '../../ledger/generation-store.ts';
import { outlastError } from '../../errors/error.ts';
import { LUA } from './lua.generated.ts';
import type { RedisConnection } from './redis-connection.ts';

/** A server's identity changes once when it starts; it cannot change more often than this between two calls. */
const MAX_LOOKS = 5;

interface Shown {
  /** The replication id and the mark of the data. */
  readonly identity: string;
  readonly generation: number | null;
  readonly isSettled: boolean;
  readonly seconds: number;
}

/**
 * The generation of the data under one root. Scripts read it where it is stored, beside the replication id it was
 * settled for, and compare that with the server they run on.
 *
 * This class holds what one process knows. On every new connection it records the server's identity in the database:
 * otherwise a replaced server that is still up, with its own clients, could be mistaken for its replacement. It also
 * remembers the highest generation it ever saw: a server with only an older one is not the one we worked with.
 */
export class RedisGeneration {
  readonly #connection: RedisConnection;
  readonly #root: string;
  readonly #node: string;
  readonly #store: GenerationStore | null;
  /** Counts connections made or lost. */
  #changes = 0;
  /** The count at which the server's identity was last recorded in the database. */
  #shownAt = -1;
  #known = -1;

  constructor(
    connection: RedisConnection,
    location: { readonly root: string; readonly node: string },
    store: GenerationStore | null,
  ) {
    this.#connection = connection;
    this.#root = location.root;
    this.#node = shortName(location.node);
    this.#store = store;
    // A cluster has many servers behind one connection, and a caller cannot know which one a script reaches.
    if (connection.isCluster) return;
    // Also when it is lost: a call that waits for the next connection must not count as one on this.
    connection.onChanged(() => {
      this.#changes += 1;
    });
  }

  /** The highest generation seen, or -1. */
  get known(): number {
    return this.#known;
  }

  /** Ensures that the database has the identity of the connected server. */
  async shown(): Promise<void> {
    if (this.#shownAt !== this.#changes) await this.settle();
  }

  /** Settles a generation for the server's current identity. */
  async settle(): Promise<void> {
    let shown = await this.#look();
    // A connection lost from here on is not the one that answered.
    const at = this.#changes;
    for (let look = 0; look < MAX_LOOKS; look++) {
      const generation = await this.#generationOf(shown);
      if (shown.isSettled && shown.generation === generation) {
        this.#known = Math.max(this.#known, generation);
        this.#shownAt = at;
        return;
      }
      shown = await this.#look(shown.identity, generation);
    }
    throw this.restless();
  }

  /** Thrown when every read reaches another server. */
  restless(): Error {
    return outlastError('ERR_STORE_UNAVAILABLE', {
      message: `the ledger ${this.#node} shows another identity at every look`,
      hint: 'Look for a Redis that restarts again and again, or for two behind one address.',
      fields: {},
    });
  }

  /** The stored one if it was settled for this server; else above every generation ever given out, as far as known. */
  async #generationOf(shown: Shown): Promise<number> {
    const stored = shown.generation ?? -1;
    const isGood = shown.isSettled && stored >= this.#known;
    const atLeast = isGood ? stored : Math.max(stored, this.#known) + 1;
    if (this.#store !== null) return await this.#store.settle(this.#node, shown.identity, atLeast);
    // There is no database to remember it: the server's clock in seconds only grows.
    return isGood ? stored : Math.max(shown.seconds, atLeast);
  }

  async #look(identity = '', generation: number | '' = ''): Promise<Shown> {
    const mark = randomBytes(9).toString('base64url');
    const reply = await this.#connection.script(
      LUA.ledgerGeneration,
      [this.#root],
      [mark, identity, generation],
    );
    const [shown, stored, isSettled, seconds] = reply as readonly [Buffer, Buffer, number, number];
    return {
      identity: String(shown),
      generation: stored.length === 0 ? null : Number(String(stored)),
      isSettled: isSettled === 1,
      seconds,
    };
  }
}

/** A column holds 255 characters; a cluster may have many hosts. */
function shortName(node: string): string {
  if (node.length <= 200) return node;
  const digest = createHash('sha256').update(node).digest('hex');
  return `${node.slice(0, 100)}…${digest}`;
}
