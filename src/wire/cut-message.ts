import { hash } from 'node:crypto';
import { KEPT_BYTES, type UndecodableMessage } from './message.ts';

/**
 * A message that is too large, cut to its size, its digest and its first bytes: otherwise any sender could fill the
 * ledger with messages that no worker can run. A cut message cannot be revived.
 */
export function cutMessage(message: UndecodableMessage): UndecodableMessage {
  const { raw, why } = message;
  return {
    ...message,
    // A copy: a view would keep all bytes in memory.
    raw: new Uint8Array(raw.subarray(0, KEPT_BYTES)),
    why: `${why}; its first ${Math.min(raw.length, KEPT_BYTES)} bytes are kept, so it cannot be brought back: have it sent again, smaller, or raise maxMessageBytes first`,
    reason: 'ERR_MESSAGE_TOO_LARGE',
    cut: { bytes: raw.length, sha256: hash('sha256', raw) },
  };
}
