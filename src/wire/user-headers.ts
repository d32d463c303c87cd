import { outlastError } from '../errors/error.ts';
import { isHandedOn } from './header-names.ts';
import { MAX_USER_HEADER_BYTES } from './message.ts';

/** Refuses headers that no message could carry: at the send, and again when messages are built from older rows. */
export function checkUserHeaders(headers: Readonly<Record<string, string>>): void {
  let bytes = 0;
  for (const [name, text] of Object.entries(headers)) {
    // A key with this name sets a prototype in half of all readers.
    if (name === '__proto__') throw refused('a header must not be called `__proto__`', 0);
    bytes += Buffer.byteLength(name) + Buffer.byteLength(text);
  }
  if (bytes > MAX_USER_HEADER_BYTES)
    throw refused(`headers of ${bytes} bytes are larger than ${MAX_USER_HEADER_BYTES}`, bytes);
}

function refused(message: string, bytes: number): Error {
  return outlastError('ERR_PAYLOAD_TOO_LARGE', {
    message,
    hint: 'Put the data into the input of the task.',
    fields: { bytes, maxBytes: MAX_USER_HEADER_BYTES },
  });
}

type Headers = Readonly<Record<string, string>>;

/**
 * A task's own headers, and those of the task before it that it has not itself. What is handed on never makes a task
 * unsendable: headers for which there is no room any more are left out.
 */
export function handOnHeaders(before: Headers, own: Headers): Headers {
  const all: Record<string, string> = { ...own };
  let left = MAX_USER_HEADER_BYTES;
  for (const name of Object.keys(own)) left -= sizeOf(name, own[name] ?? '');
  for (const [name, text] of Object.entries(before)) {
    if (Object.hasOwn(own, name) || !isHandedOn(name)) continue;
    const bytes = sizeOf(name, text);
    if (bytes > left) continue;
    left -= bytes;
    all[name] = text;
  }
  return all;
}

const sizeOf = (name: string, text: string): number =>
  Buffer.byteLength(name) + Buffer.byteLength(text);
