import { createHash, randomBytes } from 'node:crypto';
import type { GenerationStore } from '../../ledger/generation-store.ts';
import { outlastError } from '../../errors/error.ts';
import { LUA } from './lua.generated.ts';
import type { RedisConnection } from './redis-connection.ts';

/** What a server shows changes once when it starts; more often than this it cannot change between two calls. */
const MAX_LOOKS = 5;

interface Shown {
  /** The run id and the mark of the data. */
  readonly identity: string;
  readonly generation: number | null;
  readonly isSettled: boolean;
  readonly seconds: number;
}

/**
 * The generation of the data under one root. Scripts read it where it is stored, beside the run id it was settled for;
 * here is only what a process knows: whether that was checked on the connection it has, and the highest it ever saw.
 */
export class RedisGeneration {
  readonly #connection: RedisConnection;
  readonly #root: string;
  readonly #node: string;
  readonly #store: GenerationStore | null;
  #runId: string | null = null;
  #known = -1;

  constructor(
    connection: RedisConnection,
    place: { readonly root: string; readonly node: string },
    store: GenerationStore | null,
  ) {
    this.#connection = connection;
    this.#root = place.root;
    this.#node = shortName(place.node);
    this.#store = store;
    // On a cluster nobody knows which server a script will reach: it finds out itself.
    if (connection.isCluster) return;
    connection.onConnected(() => {
      this.#runId = null;
    });
  }

  /** The highest generation seen, or -1: a server that knows only an older one is not the one we worked with. */
  get known(): number {
    return this.#known;
  }

  /** The run id of the server at the other end; empty where a script must find out itself, as on a cluster. */
  async runId(): Promise<string> {
    if (this.#connection.isCluster) return '';
    return this.#runId ?? (await this.settle());
  }

  /** Settles a generation for what the server shows now, unless that has been done. Returns its run id. */
  async settle(): Promise<string> {
    let shown = await this.#look();
    for (let look = 0; look < MAX_LOOKS; look++) {
      if (shown.isSettled && (shown.generation ?? -1) >= this.#known) return this.#accept(shown);
      const generation = await this.#raise(shown);
      shown = await this.#look(shown.identity, generation);
    }
    throw outlastError('ERR_STORE_UNAVAILABLE', {
      message: `the ledger ${this.#node} shows another identity at every look`,
      hint: 'Look for a Redis that restarts again and again, or for two behind one address.',
      fields: {},
    });
  }

  #accept({ identity, generation }: Shown): string {
    this.#known = Math.max(this.#known, generation ?? -1);
    this.#runId = identity.slice(0, identity.indexOf('/'));
    return this.#runId;
  }

  /** Above everything that was ever given out here, as far as anybody can know. */
  async #raise({ identity, generation, seconds }: Shown): Promise<number> {
    const atLeast = Math.max(generation ?? -1, this.#known) + 1;
    // Nobody remembers for us: the seconds of the server's clock only grow.
    if (this.#store === null) return Math.max(seconds, atLeast);
    return await this.#store.settle(this.#node, identity, atLeast);
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
