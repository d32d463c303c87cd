import { createHash } from 'node:crypto';
import type { Envelope } from '../task/envelope.ts';
import { toBytes } from '../task/json.ts';
import type { UndecodableMessage } from '../wire/message.ts';
import type { BuryItem } from './ledger.ts';

/** A message that nobody can read, as a dead letter with its bytes. */
export function undecodable(message: UndecodableMessage): BuryItem {
  const { raw, why, reason = 'ERR_UNDECODABLE', headers } = message;
  const options = toBytes(JSON.stringify(headers === undefined ? {} : { headers }));
  const hash = createHash('sha256');
  // Two messages of the same bytes with other headers are two: neither may take the other's place.
  if (headers !== undefined) hash.update(options);
  const digest = hash.update(raw).digest('hex');
  const envelope: Envelope = {
    id: digest,
    name: message.name ?? 'unknown',
    queue: message.queue,
    priority: 0,
    version: 1,
    body: raw,
    options,
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
