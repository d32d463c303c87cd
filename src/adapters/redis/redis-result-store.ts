import type { ResultRecord, ResultStore } from '../../result/result-store.ts';
import { celeryResultKey, readCeleryResult } from './celery-result.ts';
import type { RedisConnection } from './redis-connection.ts';
import { findRecord, type RootsOf } from './redis-find.ts';

const UNKNOWN: ResultRecord = {
  state: 'unknown',
  ending: null,
  result: null,
  error: null,
  why: null,
};

/**
 * Outcomes live in the ledger's records until their time is over, and beside them as Celery writes them: those of Python's
 * workers, and ours where they are told to Celery.
 */
export class RedisResultStore implements ResultStore {
  readonly #connection: RedisConnection;
  readonly #roots: RootsOf;

  constructor(connection: RedisConnection, roots: RootsOf) {
    this.#connection = connection;
    this.#roots = roots;
  }

  async read(id: string): Promise<ResultRecord> {
    const found = await findRecord(this.#connection, await this.#roots(), id);
    if (found === null) return (await this.#ofCelery(id)) ?? UNKNOWN;
    const { state, ending, result, error, why } = found.record;
    const isElsewhere = ending === 'done' && result === null;
    return {
      state,
      ending,
      result: isElsewhere ? ((await this.#ofCelery(id))?.result ?? null) : result,
      error,
      why: why === '' && ending !== 'discarded' ? null : why,
    };
  }

  async #ofCelery(id: string): Promise<ResultRecord | null> {
    const text = (await this.#connection.command('get', celeryResultKey(id))) as Buffer | null;
    return text === null ? null : readCeleryResult(text.toString());
  }
}
