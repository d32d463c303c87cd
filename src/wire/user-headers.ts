import { outlastError } from '../errors/error.ts';
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
