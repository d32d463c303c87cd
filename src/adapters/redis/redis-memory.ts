import { LUA } from './lua.generated.ts';
import type { RedisConnection } from './redis-connection.ts';
import type { RootsOf } from './redis-find.ts';

/** The rest is for tasks in progress: a full server refuses the steps that would empty it. */
const CLOSED_FROM = 0.8;
/** One query a second, however many callers ask. */
const REMEMBER_MS = 1_000;

/** How full the ledger's servers are; only where they have a limit. */
export class RedisMemory {
  readonly #connection: RedisConnection;
  readonly #roots: RootsOf;
  #asked: { readonly at: number; readonly share: Promise<number> } | null = null;

  constructor(connection: RedisConnection, roots: RootsOf) {
    this.#connection = connection;
    this.#roots = roots;
  }

  async pressure(): Promise<{ readonly retryAfterMs: number; readonly why: string } | null> {
    const share = await this.#share();
    if (share < CLOSED_FROM) return null;
    const why = `${Math.floor(share * 100)} % of the maxmemory of Redis are used`;
    return { retryAfterMs: REMEMBER_MS, why };
  }

  #share(): Promise<number> {
    const now = performance.now();
    if (this.#asked === null || now - this.#asked.at >= REMEMBER_MS) {
      this.#asked = { at: now, share: this.#ask() };
      // Cached like an answer: no caller waits again for a server that was away a moment ago.
      this.#asked.share.catch(() => undefined);
    }
    return this.#asked.share;
  }

  /** The fullest server decides. */
  async #ask(): Promise<number> {
    const texts = this.#connection.isCluster
      ? await Promise.all(
          (await this.#roots()).map(root =>
            this.#connection.script(LUA.admissionMemory, [root], []),
          ),
        )
      : [await this.#connection.command('info', 'memory')];
    return Math.max(...texts.map(text => shareOf(String(text))));
  }
}

function shareOf(info: string): number {
  const field = (name: string): number =>
    Number(new RegExp(`^${name}:(\\d+)`, 'm').exec(info)?.[1] ?? 0);
  const max = field('maxmemory');
  return max === 0 ? 0 : field('used_memory') / max;
}
