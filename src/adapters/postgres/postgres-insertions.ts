import { MARKS } from '../../task/marks.ts';
import { type NewTask, bodyOf, rowVersionOf } from '../../outbox/outbox-writer.ts';
import { EMBED } from '../../task/signature.ts';
import { SQL } from './sql.generated.ts';

/** A second send with the same key returns the first task's handle for this long. */
const KEY_WINDOW_MS = '86400000';

type Values = readonly (string | null)[];

/** The statements with which a sender writes its tasks. */
export interface Insertions {
  /** One task under a drawn id and without a key: nothing of it can be there already. */
  one(task: NewTask, notifies: boolean): { readonly text: string; readonly values: Values };
  /** One task with a key: its values as `rowTexts` has them, and whether to notify. Null: as many. */
  readonly keyed: string | null;
  /** Up to a thousand tasks of any kind: their rows as JSON, whether to notify, and the proof of a transaction. */
  readonly many: string;
  readonly rowTexts: (task: NewTask) => object;
}

/** The parameters of `enqueue.sql`: all but the key, its fingerprint and its window. */
const UNKEYED_VALUES = 17;

interface RowTexts {
  readonly task_id: string;
  readonly task_name: string;
  readonly queue: string;
  readonly priority: string;
  readonly args: string;
  readonly kwargs: string;
  readonly embed: string;
  readonly options: string;
  readonly digest: string;
  readonly schema_version: string;
  readonly payload_version: string;
  readonly eta_ms: string | null;
  readonly expires_ms: string | null;
  readonly ordering_key: string | null;
  readonly parks_key: string;
  readonly redacted_args: string | null;
  readonly redacted_kwargs: string | null;
  readonly idempotency_key: string | null;
  readonly fingerprint: string;
  readonly key_window_ms: string;
}

/** Only a name and an object under a new id: like most tasks. */
export const isPlain = (task: NewTask): boolean =>
  task.isIdDrawn &&
  task.call.args === '[]' &&
  task.embed === EMBED &&
  task.etaMs === null &&
  task.expiresMs === null &&
  task.orderingKey === null &&
  task.idempotencyKey === null &&
  task.redacted === null &&
  task.isForTest === undefined;

/** In the order of the parameters of `enqueue-plain.sql`. */
const plainValues = (task: NewTask): string[] => [
  task.id,
  task.name,
  task.queue,
  String(task.priority),
  byteaOf(task.call.kwargs),
  byteaOf(task.settings),
  task.digest,
  String(task.version),
];

// oxlint-disable-next-line no-control-regex -- it is about all of ASCII
const ASCII = /^[\u0000-\u007f]*$/;

/**
 * A text in PostgreSQL's format for bytes: ASCII unchanged, so that it need not be encoded and decoded. All else in digits,
 * because on its way a text is converted to the encoding of the database.
 */
function byteaOf(text: string): string {
  if (!ASCII.test(text)) return `\\x${Buffer.from(text).toString('hex')}`;
  return text.includes('\\') ? text.replaceAll('\\', '\\\\') : text;
}

/** In the order of the parameters of `enqueue-keyed.sql`, under the names of `enqueue-many.sql`. */
function rowTexts(task: NewTask): RowTexts {
  const { call, redacted } = task;
  return {
    task_id: task.id,
    task_name: task.name,
    queue: task.queue,
    priority: String(task.priority),
    args: base64(call.args),
    kwargs: base64(call.kwargs),
    embed: base64(task.embed),
    options: base64(task.settings),
    digest: task.digest,
    schema_version: String(rowVersionOf(task)),
    payload_version: String(task.version),
    eta_ms: textOf(task.etaMs),
    expires_ms: textOf(task.expiresMs),
    ordering_key: task.orderingKey,
    parks_key: String(task.parksKey),
    redacted_args: redacted === null ? null : base64(redacted.args),
    redacted_kwargs: redacted === null ? null : base64(redacted.kwargs),
    idempotency_key: task.idempotencyKey,
    fingerprint: task.fingerprint,
    key_window_ms: KEY_WINDOW_MS,
  };
}

const base64 = (text: string): string => Buffer.from(text).toString('base64');

/** All tasks become rows of the outbox. */
export const INTO_OUTBOX: Insertions = {
  one: (task, notifies) => {
    if (isPlain(task))
      return {
        text: notifies ? SQL.enqueuePlainNotify : SQL.enqueuePlain,
        values: plainValues(task),
      };
    const values = Object.values(rowTexts(task)) as (string | null)[];
    const text = notifies ? SQL.enqueueNotify : SQL.enqueue;
    return { text, values: values.slice(0, UNKEYED_VALUES) };
  },
  keyed: SQL.enqueueKeyed,
  many: SQL.enqueueMany,
  rowTexts,
};

/** The ledger is in the same database: only what a relay has to order or to hold back becomes a row. */
export const INTO_LEDGER: Insertions = {
  one: (task, notifies) => {
    if (needsRelay(task)) return INTO_OUTBOX.one(task, notifies);
    const values = taskValues(task);
    if (task.etaMs === null && task.expiresMs === null)
      return { text: notifies ? SQL.sendTaskNotify : SQL.sendTask, values };
    const times = [textOf(task.etaMs), textOf(task.expiresMs)];
    return { text: SQL.sendTimedTask, values: [...values, ...times, notifies ? 'yes' : null] };
  },
  keyed: null,
  many: SQL.sendMany,
  rowTexts: task => {
    const chosen = task.isIdDrawn ? null : 'yes';
    return needsRelay(task) ? { ...rowTexts(task), chosen } : { ...bodyTexts(task), chosen };
  },
};

/** Under the names of `send-many.sql`. Copies for the eyes of people are in the options, too. */
const bodyTexts = (task: NewTask): object => ({
  task_id: task.id,
  task_name: task.name,
  queue: task.queue,
  priority: String(task.priority),
  body: base64(bodyOf(task.call, task.embed)),
  options: base64(task.settings),
  digest: task.digest,
  payload_version: String(task.version),
  eta_ms: textOf(task.etaMs),
  expires_ms: textOf(task.expiresMs),
  idempotency_key: task.idempotencyKey,
  fingerprint: task.fingerprint,
  key_window_ms: KEY_WINDOW_MS,
});

/** Relays keep the order of a key, and take the rate of a limit before a task goes on. */
const needsRelay = (task: NewTask): boolean =>
  task.orderingKey !== null || task.settings.includes(MARKS.limited);

/** In the order of the parameters of `send-task.sql`. */
const taskValues = (task: NewTask): string[] => [
  task.id,
  task.name,
  task.queue,
  String(task.priority),
  byteaOf(bodyOf(task.call, task.embed)),
  byteaOf(task.settings),
  task.digest,
  String(task.version),
];

const textOf = (ms: number | null): string | null => (ms === null ? null : String(ms));
