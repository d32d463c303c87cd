import type { AfterEntry } from '../../ledger/ledger.ts';
import type { Envelope } from '../../task/envelope.ts';
import { toBytes, toText } from '../../task/json.ts';

interface StoredEntry extends Omit<Envelope, 'body' | 'options'> {
  readonly body: string;
  readonly options: string;
}

/** An entry as bytes of its own: it outlives the task row it came from. */
export function encodeAfter(entry: AfterEntry): Uint8Array {
  const { publish } = entry;
  const stored: StoredEntry = {
    ...publish,
    body: base64(publish.body),
    options: base64(publish.options),
  };
  return toBytes(JSON.stringify(stored));
}

export function decodeAfter(key: string, bytes: Uint8Array): AfterEntry {
  const stored = JSON.parse(toText(bytes)) as StoredEntry;
  const publish = { ...stored, body: fromBase64(stored.body), options: fromBase64(stored.options) };
  return { key, publish };
}

const base64 = (bytes: Uint8Array): string => Buffer.from(bytes).toString('base64');
const fromBase64 = (text: string): Uint8Array => new Uint8Array(Buffer.from(text, 'base64'));
