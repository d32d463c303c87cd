import type { ResultRecord, ResultStore } from '../../result/result-store.ts';
import type { RedisConnection } from './redis-connection.ts';
import { findRecord, type RootsOf } from './redis-find.ts';

const UNKNOWN: ResultRecord = {
  state: 'unknown',
  ending: null,
  result: null,
  error: null,
  why: null,
};

/** Outcomes live in the ledger's records until their time is over. */
export class RedisResultStore implements ResultStore {
  readonly #connection: RedisConnection;
  readonly #roots: RootsOf;

  constructor(connection: RedisConnection, roots: RootsOf) {
    this.#connection = connection;
    this.#roots = roots;
  }

  async read(id: string): Promise<ResultRecord> {
    const found = await findRecord(this.#connection, await this.#roots(), id);
    if (found === null) return UNKNOWN;
    const { state, ending, result, error, why } = found.record;
    return { state, ending, result, error, why: why === '' && ending !== 'discarded' ? null : why };
  }
}
