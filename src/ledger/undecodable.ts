import { createHash } from 'node:crypto';
import type { Envelope } from '../task/envelope.ts';
import { toBytes } from '../task/json.ts';
import type { Redact } from '../task/redact.ts';
import { HIDDEN_COPIES } from '../task/digest.ts';
import type { UndecodableMessage } from '../wire/message.ts';
import type { BuryItem } from './ledger.ts';

/** Celery's headers that describe the arguments. */
const DESCRIPTIONS: ReadonlySet<string> = new Set(['argsrepr', 'kwargsrepr']);

/** An unreadable message, as a dead letter with its bytes. If there is a redactor, people see none of them. */
export function undecodable(message: UndecodableMessage, redact: Redact | null): BuryItem {
  const { raw, reason = 'ERR_UNDECODABLE', headers, cut, quotes = false } = message;
  const isHidden = redact !== null;
  const why = isHidden && quotes ? 'its bytes are not what they should be' : message.why;
  const options = toBytes(JSON.stringify({ headers, cut }));
  const hash = createHash('sha256');
  // The same bytes with other headers are another message: neither may replace the other.
  if (headers !== undefined || cut !== undefined) hash.update(options);
  const digest = hash.update(raw).digest('hex');
  const envelope: Envelope = {
    id: digest,
    name: message.name ?? 'unknown',
    queue: message.queue,
    priority: 0,
    version: 1,
    body: raw,
    options: isHidden ? hidden(headers) : options,
    digest,
    etaMs: null,
    expiresMs: null,
  };
  return {
    kind: 'message',
    envelope,
    reason,
    error: { type: reason, message: why, traceback: '' },
  };
}

function hidden(headers: Readonly<Record<string, string>> = {}): Uint8Array {
  const shown = Object.entries(headers).filter(([name]) => !DESCRIPTIONS.has(name));
  return toBytes(JSON.stringify({ headers: Object.fromEntries(shown), redacted: HIDDEN_COPIES }));
}
