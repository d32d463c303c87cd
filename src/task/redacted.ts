import type { EnvelopeOptions } from './envelope.ts';
import { isJson, toBytes, toText } from './json.ts';

/** The bytes of a task, and the redacted copies of its arguments if a column keeps them. */
export interface StoredPayload {
  readonly body: Uint8Array;
  readonly options: Uint8Array;
  readonly redactedArgs: Uint8Array | null;
  readonly redactedKwargs: Uint8Array | null;
}

export interface ShownPayload {
  readonly body: Uint8Array;
  readonly options: Uint8Array;
  readonly isRedacted: boolean;
}

const HIDDEN = '"[hidden]"';

/**
 * What people may see of a task. Copies come from the columns of an outbox, or travelled in the options; a copy that is
 * incomplete or unreadable hides, it never shows the original. Follow-ups carry their own arguments: they are shown if
 * there is a copy of them.
 */
export function shownPayload(stored: StoredPayload): ShownPayload {
  const { body, options, redactedArgs, redactedKwargs } = stored;
  if (redactedArgs !== null || redactedKwargs !== null) {
    return redacted(options, textOf(redactedArgs), textOf(redactedKwargs));
  }
  const travelled = redactedIn(options);
  return travelled === null
    ? { body, options, isRedacted: false }
    : redacted(options, travelled.args, travelled.kwargs);
}

function redacted(options: Uint8Array, args: string | null, kwargs: string | null): ShownPayload {
  const { redacted: copies, ...rest } = readOptions(options) ?? {};
  const embed = jsonText(copies?.embed) ?? 'null';
  const body = toBytes(`[${args ?? HIDDEN},${kwargs ?? HIDDEN},${embed}]`);
  return { body, options: toBytes(JSON.stringify(rest)), isRedacted: true };
}

interface Copies {
  readonly args: string | null;
  readonly kwargs: string | null;
}

/** Null: there are none. Options that mention them and cannot be read hide everything. */
function redactedIn(options: Uint8Array): Copies | null {
  if (!Buffer.from(options).includes('"redacted"')) return null;
  const read = readOptions(options);
  if (read === null) return { args: null, kwargs: null };
  if (read.redacted === undefined) return null;
  const { args, kwargs } = (read.redacted ?? {}) as Partial<Record<string, unknown>>;
  return { args: jsonText(args), kwargs: jsonText(kwargs) };
}

function readOptions(options: Uint8Array): EnvelopeOptions | null {
  try {
    const read: unknown = JSON.parse(toText(options));
    return typeof read === 'object' && read !== null && !Array.isArray(read) ? read : null;
  } catch {
    return null;
  }
}

function textOf(bytes: Uint8Array | null): string | null {
  if (bytes === null) return null;
  try {
    return jsonText(toText(bytes));
  } catch {
    return null;
  }
}

/** Text that is not JSON would break the body it is put into. */
function jsonText(value: unknown): string | null {
  return typeof value === 'string' && isJson(value) ? value : null;
}
