import type { AfterEntry, ErrorRecord } from './follow-up-log.ts';
import { decodeJson } from '../task/json.ts';

/** The fields of each kind of entry that other code relies on. */
const FIELDS: Readonly<Record<string, Readonly<Record<string, string>>>> = {
  publish: {
    id: 'string',
    name: 'string',
    queue: 'string',
    priority: 'number',
    version: 'number',
    digest: 'string',
  },
  part: { groupId: 'string', index: 'number', taskId: 'string' },
  parent: { id: 'string', rootId: 'string', queue: 'string' },
  reply: { replyTo: 'string', correlationId: 'string', body: 'string' },
};

/**
 * Decodes a stored entry. Other programs may have written there: an unreadable one is returned as such, because an error
 * would keep all the others from being carried out.
 */
export function readEntry(key: string, bytes: Uint8Array, decode: () => AfterEntry): AfterEntry {
  try {
    const entry = decode();
    checkEntry(entry);
    return entry;
  } catch (error) {
    const why = `a follow-up cannot be read: ${error instanceof Error ? error.message : String(error)}`;
    return { key, unreadable: new Uint8Array(bytes), why };
  }
}

function checkEntry(entry: AfterEntry): void {
  if ('publish' in entry) check('publish', entry.publish);
  else if ('ended' in entry) check('publish', entry.ended.envelope);
  else if ('reply' in entry) check('reply', entry.reply);
  else if ('part' in entry) {
    check('part', entry.part);
    check('parent', entry.parent);
    if (typeof entry.body !== 'string') throw new TypeError('body is no string');
  }
}

function check(kind: string, value: object): void {
  for (const [field, type] of Object.entries(FIELDS[kind] ?? {})) {
    const found: unknown = (value as Record<string, unknown>)[field];
    if (typeof found !== type) throw new TypeError(`${field} is no ${type}`);
  }
}

/** For people to read. Text that is no error record, because another program wrote it, is shown unchanged. */
export function readErrorRecord(text: string): ErrorRecord {
  const shown = { type: 'unknown', message: text.slice(0, 1_000), traceback: '' };
  try {
    const value = decodeJson(text);
    const isError = typeof value === 'object' && value !== null && 'message' in value;
    return isError ? (value as ErrorRecord) : shown;
  } catch {
    return shown;
  }
}
