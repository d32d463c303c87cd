import { outlastError } from '../../errors/error.ts';
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

/** The largest result that our workers keep, plus what Celery writes around it. */
const MOST_BYTES = 17_825_792;

function tooLarge(id: string): Error {
  return outlastError('ERR_PAYLOAD_TOO_LARGE', {
    message: `the result of ${id} has more than the ${MOST_BYTES} bytes that are read`,
    hint: 'Let the task store its data elsewhere and return a reference to it.',
    fields: { bytes: MOST_BYTES + 1, maxBytes: MOST_BYTES },
  });
}

/**
 * Outcomes are kept in the ledger's records until they expire, and beside them in Celery's format: those of Python
 * workers, and ours if they are published for Celery.
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
    const key = celeryResultKey(id);
    const text = (await this.#connection.command('getrange', key, 0, MOST_BYTES)) as Buffer;
    if (text.length === 0) return null;
    if (text.length > MOST_BYTES) throw tooLarge(id);
    const record = readCeleryResult(text.toString());
    if (record?.of === undefined) return record;
    // If that task was revived, this one may still be sent.
    const before = await findRecord(this.#connection, await this.#roots(), record.of);
    const ending = before === null ? 'dead' : before.record.ending;
    return ending === null || ending === 'done' ? null : record;
  }
}
