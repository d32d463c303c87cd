import type { FollowDeps } from '../../ledger/follow-up.ts';
import type { Ledger } from '../../ledger/ledger.ts';
import { undecodable } from '../../ledger/undecodable.ts';
import type { Runtime } from '../../runtime/runtime.ts';
import { NO_KEYS, type Keyring } from '../../task/keyring.ts';
import type { Redact } from '../../task/redact.ts';
import type { UndecodableMessage } from '../../wire/message.ts';
import { encodeReport } from '../../wire/reply.ts';
import type { FollowUpSender } from '../run/follow-up-sender.ts';

export interface AnswerRefusedDeps {
  readonly ledger: Pick<Ledger, 'recordNeverSent'>;
  readonly runtime: Runtime;
  readonly redact: Redact | null;
  readonly keyring?: Keyring;
  /** Left out: nobody waits at queues. */
  readonly followUps?: Pick<FollowUpSender, 'send'>;
}

/**
 * Tells the caller of a message that is a dead letter now, because it cannot be read: it waits for an id that never runs.
 * Once, and in the background: the letter is what must not be lost, and a sender of many such messages must not hold up the
 * others. Not where tasks are signed, nor if the bytes are not those that were sent: anybody could have chosen the id.
 */
export async function answerRefused(
  message: UndecodableMessage,
  deps: AnswerRefusedDeps,
): Promise<void> {
  const { asker, reason } = message;
  const { ledger, runtime, redact, keyring = NO_KEYS, followUps } = deps;
  if (asker === undefined || reason === 'ERR_DIGEST' || keyring.isSigning) return;
  const { envelope, error } = letterOf(message, redact);
  const told = { status: 'FAILURE', error } as const;
  const { id, replyTo, correlationId } = asker;
  if (replyTo !== undefined && followUps !== undefined) {
    const reply = { replyTo, correlationId, body: encodeReport(id, told) };
    const follow: FollowDeps = {
      nowMs: runtime.clock.now(),
      queueOf: () => null,
      redact,
      keyring,
      answers: true,
    };
    const key = `${envelope.id}/reply`;
    followUps.send([{ key, reply }], runtime.clock.monotonic(), follow);
  }
  await ledger.recordNeverSent?.([id], told, envelope.id);
}

/** The letter as it is stored: with a redactor its reason quotes no bytes. */
function letterOf(message: UndecodableMessage, redact: Redact | null) {
  const item = undecodable(message, redact);
  if (item.kind !== 'message') throw new TypeError('an unreadable message is no run');
  return item;
}
