import { isOutlastError, outlastError } from '../errors/error.ts';
import type { Clock } from '../runtime/clock.ts';
import type { Logger } from '../telemetry/logger.ts';
import type { Comparison } from './transaction-adapter.ts';

export interface SameDatabaseDeps<Tx> {
  readonly compare: (tx: Tx) => Promise<Comparison>;
  /** The expected URL, without its secrets, and the option that names it. */
  readonly configured: { readonly option: string; readonly url: string };
  readonly clock: Pick<Clock, 'monotonic'>;
  readonly log: Logger;
}

/** A database that did not answer is not asked again with every send. */
const PAUSE_MS = 30_000;

/**
 * Refuses to write tasks into a database where no relay looks for them. Checked with the first send, because nothing is
 * connected before; once it is certain, it is not checked again.
 */
export class SameDatabase<Tx> {
  readonly #deps: SameDatabaseDeps<Tx>;
  #isCertain = false;
  #asking: Promise<void> | null = null;
  #askAgainAt = -Infinity;

  constructor(deps: SameDatabaseDeps<Tx>) {
    this.#deps = deps;
  }

  /** Null: there is nothing to wait for. Sends in the meantime wait for the same answer. */
  check(tx: Tx): Promise<void> | null {
    if (this.#isCertain) return null;
    if (this.#asking !== null) return this.#asking;
    if (this.#deps.clock.monotonic() < this.#askAgainAt) return null;
    this.#asking = this.#ask(tx).finally(() => {
      this.#asking = null;
    });
    return this.#asking;
  }

  async #ask(tx: Tx): Promise<void> {
    const { compare, configured, clock, log } = this.#deps;
    try {
      const { isSame, name } = await compare(tx);
      if (isSame === false) throw mismatch(name, configured);
      this.#isCertain = isSame === true;
    } catch (error) {
      if (isOutlastError(error, 'ERR_DATABASE_MISMATCH')) throw error;
      log.warn({ error }, `${configured.url} did not say whether tasks are written to it`);
    }
    this.#askAgainAt = clock.monotonic() + PAUSE_MS;
  }
}

export function mismatch(
  adapter: string,
  { option, url }: { readonly option: string; readonly url: string },
): Error {
  return outlastError('ERR_DATABASE_MISMATCH', {
    message: `the adapter writes tasks to ${adapter}, and \`${option}\` is ${url}: no relay would find them`,
    hint: `Let both be one database: create the pool from the URL of \`${option}\`, or set \`${option}\` to the database of the pool.`,
    fields: { adapter, configured: url },
  });
}
