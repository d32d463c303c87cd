import { outlastError } from '../../errors/error.ts';
import type { ResultRecord, ResultStore } from '../../result/result-store.ts';
import type { RedisConnection } from './redis-connection.ts';
import { type RootsOf, findRecord } from './redis-find.ts';
import type { ErrorRecord } from '../../ledger/ledger.ts';
import { membersOf } from '../../task/json-slices.ts';
import { decodePython, encodeJson, toBytes } from '../../task/json.ts';

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

/** The key where Celery keeps a task's outcome; it publishes it on a channel of the same name. */
export function celeryResultKey(id: string): string {
  return `celery-task-meta-${id}`;
}

const NOTHING = { ending: null, result: null, error: null, why: null } as const;
/** How a discarded task is shown there: Celery would wait forever for one it ignores. */
const DISCARDED = 'discarded: ';

/** An outcome as written by a Celery worker, or by the ledger in Celery's format. Null: it is not one. */
export function readCeleryResult(text: string): ResultRecord | null {
  const meta = parse(text);
  if (meta === null) return null;
  const record = recordOf(meta, text);
  const of = meta['outlast_ended'];
  return record !== null && typeof of === 'string' ? { ...record, of } : record;
}

function recordOf(meta: Table, text: string): ResultRecord | null {
  switch (meta['status']) {
    case 'SUCCESS':
      return { ...NOTHING, state: 'done', ending: 'done', result: resultBytes(text) };
    case 'FAILURE':
      return { ...NOTHING, state: 'dead', ending: 'dead', error: errorOf(meta) };
    case 'REVOKED':
      return revoked(errorOf(meta).message);
    case 'RETRY':
      return { ...NOTHING, state: 'waiting' };
    default:
      // In progress: started, or in a custom state.
      return typeof meta['status'] === 'string' ? { ...NOTHING, state: 'running' } : null;
  }
}

type Table = Readonly<Record<string, unknown>>;

function parse(text: string): Table | null {
  try {
    const value = decodePython(text);
    const isTable = typeof value === 'object' && value !== null && !Array.isArray(value);
    return isTable ? (value as Table) : null;
  } catch {
    return null;
  }
}

/** As it was written: a float of Python stays one, also for the next reader. */
const resultBytes = (text: string): Uint8Array => toBytes(membersOf(text).get('result') ?? 'null');

function errorOf(meta: Table): ErrorRecord {
  const { exc_type: type, exc_message: message } = (meta['result'] ?? {}) as Table;
  const parts: readonly unknown[] = Array.isArray(message) ? message : [message];
  const texts = parts.map(shownPart);
  return {
    type: typeof type === 'string' ? type : 'Error',
    message: texts.join(', '),
    traceback: typeof meta['traceback'] === 'string' ? meta['traceback'] : '',
  };
}

function shownPart(part: unknown): string {
  if (typeof part === 'string') return part;
  try {
    return encodeJson(part ?? null);
  } catch {
    // Python's NaN, or deeper than we write.
    return String(part);
  }
}

function revoked(message: string): ResultRecord {
  if (message.startsWith(DISCARDED)) {
    const why = message.slice(DISCARDED.length);
    return { ...NOTHING, state: 'done', ending: 'discarded', why };
  }
  const ending = message === 'expired' ? 'expired' : 'cancelled';
  return { ...NOTHING, state: 'cancelled', ending };
}
