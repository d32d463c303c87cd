import type { ErrorRecord } from '../../ledger/ledger.ts';
import type { ResultRecord } from '../../result/result-store.ts';
import { decodeJson, encodeJson, toBytes } from '../../task/json.ts';

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
      return { ...NOTHING, state: 'done', ending: 'done', result: resultBytes(meta, text) };
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
  for (const read of [decodeJson, readLoosely]) {
    try {
      const value = read(text);
      if (typeof value === 'object' && value !== null && !Array.isArray(value))
        return value as Table;
    } catch {
      // Python writes NaN and Infinity, which are not JSON: then the value's text has to do.
    }
  }
  return null;
}

const AROUND = /^\{"status": "([A-Z]+)", "result": /;

function readLoosely(text: string): Table {
  return { status: AROUND.exec(text)?.[1] };
}

function resultBytes(meta: Table, text: string): Uint8Array {
  if ('result' in meta) return toBytes(encodeJson(meta['result']));
  const start = AROUND.exec(text)?.[0].length ?? 0;
  return toBytes(text.slice(start, text.lastIndexOf(', "traceback": ')));
}

function errorOf(meta: Table): ErrorRecord {
  const { exc_type: type, exc_message: message } = (meta['result'] ?? {}) as Table;
  const parts: readonly unknown[] = Array.isArray(message) ? message : [message];
  const texts = parts.map(part => (typeof part === 'string' ? part : encodeJson(part ?? null)));
  return {
    type: typeof type === 'string' ? type : 'Error',
    message: texts.join(', '),
    traceback: typeof meta['traceback'] === 'string' ? meta['traceback'] : '',
  };
}

function revoked(message: string): ResultRecord {
  if (message.startsWith(DISCARDED)) {
    const why = message.slice(DISCARDED.length);
    return { ...NOTHING, state: 'done', ending: 'discarded', why };
  }
  const ending = message === 'expired' ? 'expired' : 'cancelled';
  return { ...NOTHING, state: 'cancelled', ending };
}
