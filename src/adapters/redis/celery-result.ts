import type { ErrorRecord } from '../../ledger/ledger.ts';
import type { ResultRecord } from '../../result/result-store.ts';
import { membersOf } from '../../task/json-slices.ts';
import { decodePython, encodeJson, toBytes } from '../../task/json.ts';

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
