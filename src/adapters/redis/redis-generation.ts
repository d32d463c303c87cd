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
 * The generation of the data under one root. Scripts read it where it is stored, beside the run id it was settled for.
 *
 * Here is what a process knows. On every new connection it shows the database what the server shows: a server that was
 * replaced and is still there, with clients of its own, would otherwise be taken for the one that replaced it. And it
 * remembers the highest generation it ever saw: a server that knows only an older one is not the one we worked with.
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
    // A cluster has many servers behind one connection, and tells nobody which one a script reaches.
    if (connection.isCluster) return;
    connection.onConnected(() => {
      this.#runId = null;
    });
  }

  /** The highest generation seen, or -1. */
  get known(): number {
    return this.#known;
  }

  /** The run id of the server at the other end; empty on a cluster, where a script finds out itself. */
  async runId(): Promise<string> {
    const runId = this.#runId ?? (await this.settle());
    return this.#connection.isCluster ? '' : runId;
  }

  /** Settles a generation for what the server shows now. Returns its run id. */
  async settle(): Promise<string> {
    let shown = await this.#look();
    for (let look = 0; look < MAX_LOOKS; look++) {
      const generation = await this.#generationOf(shown);
      if (shown.isSettled && shown.generation === generation) return this.#accept(shown);
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

  /** As it is where it was settled for this server; else above everything that was ever given out, as far as is known. */
  async #generationOf(shown: Shown): Promise<number> {
    const stored = shown.generation ?? -1;
    const isGood = shown.isSettled && stored >= this.#known;
    const atLeast = isGood ? stored : Math.max(stored, this.#known) + 1;
    if (this.#store !== null) return await this.#store.settle(this.#node, shown.identity, atLeast);
    // Nobody remembers for us: the seconds of the server's clock only grow.
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
