import { AFTER_LIST_BYTES } from '../../ledger/batch-limits.ts';
import type {
  AfterEntry,
  AfterLog,
  ChordPartEntry,
  EndedTask,
  FollowUp,
  ReplyEntry,
} from '../../ledger/ledger.ts';
import { readEntry } from '../../ledger/read-entry.ts';
import type { Envelope } from '../../task/envelope.ts';
import { toBytes, toText } from '../../task/json.ts';
import { SQL } from './sql.generated.ts';
import type { SqlDatabase } from '../sql/sql-database.ts';

/** The follow-up log: what must follow a terminal step but is sent elsewhere. */
export function postgresAfterLog(db: SqlDatabase): AfterLog {
  return {
    list: async (olderThanMs, limit) => {
      const rows = await db.query(SQL.afterList, [olderThanMs, limit, AFTER_LIST_BYTES]);
      return rows.map(row => {
        const [key, bytes] = [row['key'] as string, row['entry'] as Uint8Array];
        const entry = readEntry(key, bytes, () => decodeAfter(key, bytes));
        const attempts = Number(row['attempts']);
        return attempts === 0 ? entry : { ...entry, attempts };
      });
    },
    strike: async keys => {
      if (keys.length > 0) await db.query(SQL.afterStrike, [keys]);
    },
    defer: async entries => {
      if (entries.length === 0) return;
      await db.query(SQL.afterDefer, [
        entries.map(({ key }) => key),
        entries.map(({ delayMs }) => Math.round(delayMs)),
        entries.map(({ isAttempt }) => (isAttempt ? 1 : 0)),
      ]);
    },
  };
}

interface StoredEnvelope extends Omit<Envelope, 'body' | 'options'> {
  readonly body: string;
  readonly options: string;
}

/** An envelope to be published, one with its ending as `outlast_ended()` writes it, a part of a chord, or an answer. */
type StoredEntry =
  | (StoredEnvelope & { readonly ended?: EndedTask['how']; readonly epoch?: number })
  | Omit<ChordPartEntry, 'key'>
  | Omit<ReplyEntry, 'key'>;

/** An entry with its own bytes: it outlives the task row it came from. */
export function encodeAfter(entry: FollowUp): Uint8Array {
  return toBytes(JSON.stringify(toStored(entry)));
}

function toStored(entry: FollowUp): StoredEntry {
  if ('reply' in entry) return { reply: entry.reply };
  if ('part' in entry) return { part: entry.part, body: entry.body, parent: entry.parent };
  const { publish } = entry;
  return { ...publish, body: base64(publish.body), options: base64(publish.options) };
}

function decodeAfter(key: string, bytes: Uint8Array): AfterEntry {
  const stored = JSON.parse(toText(bytes)) as StoredEntry;
  if ('part' in stored || 'reply' in stored) return { key, ...stored };
  const { ended, epoch, ...rest } = stored;
  const envelope = { ...rest, body: fromBase64(rest.body), options: fromBase64(rest.options) };
  if (ended === undefined) return { key, publish: envelope };
  return { key, ended: { envelope, how: ended, epoch: epoch ?? 0 } };
}

const base64 = (bytes: Uint8Array): string => Buffer.from(bytes).toString('base64');
const fromBase64 = (text: string): Uint8Array => new Uint8Array(Buffer.from(text, 'base64'));
