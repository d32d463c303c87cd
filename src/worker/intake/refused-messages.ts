import { isUnavailable } from '../../errors/error.ts';
import { undecodable } from '../../ledger/undecodable.ts';
import { reportBuried } from '../../ledger/dead-letter.ts';
import type { BuryItem, Ledger } from '../../ledger/ledger.ts';
import type { Runtime } from '../../runtime/runtime.ts';
import type { Envelope } from '../../task/envelope.ts';
import type { Redact } from '../../task/redact.ts';
import { cutMessage } from '../../wire/cut-message.ts';
import type { UndecodableMessage } from '../../wire/message.ts';
import { shortText } from '../run/error-record.ts';
import type { FollowDeps } from '../../ledger/follow-up.ts';
import { type Keyring, NO_KEYS } from '../../task/keyring.ts';
import { encodeReport } from '../../wire/reply.ts';
import type { FollowUpSender } from '../run/follow-up-sender.ts';

interface BuryDeps {
  readonly ledger: Pick<Ledger, 'bury'>;
  readonly runtime: Runtime;
  readonly redact: Redact | null;
}

/**
 * Buries a message that the store can never take as a task: whole if the store takes it so, else with the first of its
 * bytes. False: the store takes neither, or is away. Never throws.
 */
export async function buryRefused(
  envelope: Envelope,
  refusal: unknown,
  deps: BuryDeps,
): Promise<boolean> {
  const why = `the store refuses it: ${shortText(String(refusal))}`;
  const { id, body: raw, queue, name } = envelope;
  const headers = { id, task: name };
  const short = cut({ raw, queue, name, headers, why }, deps.redact);
  return await buryOneOf([whole(envelope, why), short], deps);
}

/** Buries a message that cannot be decoded; if necessary, only the first of its bytes. Throws if the store is away. */
export async function buryUndecodable(message: UndecodableMessage, deps: BuryDeps): Promise<void> {
  const { ledger, runtime, redact } = deps;
  let letter = undecodable(message, redact);
  try {
    await ledger.bury([letter]);
  } catch (error) {
    if (isUnavailable(error) || message.cut !== undefined) throw error;
    runtime.log.warn({ error }, 'the store refuses a letter; only its first bytes are kept');
    letter = cut(message, redact);
    await ledger.bury([letter]);
  }
  reportBuried([letter], runtime.emit);
}

async function buryOneOf(
  items: readonly BuryItem[],
  { ledger, runtime }: Pick<BuryDeps, 'ledger' | 'runtime'>,
): Promise<boolean> {
  for (const item of items) {
    try {
      await ledger.bury([item]);
      reportBuried([item], runtime.emit);
      return true;
    } catch (error) {
      runtime.log.warn({ error }, 'a message that the store refuses could not be buried');
      if (isUnavailable(error)) return false;
    }
  }
  return false;
}

const cut = (message: UndecodableMessage, redact: Redact | null): BuryItem =>
  undecodable(cutMessage(message), redact);

/** Under id and digest: another task may have its id. */
function whole(envelope: Envelope, message: string): BuryItem {
  const reason = 'ERR_INVARIANT';
  const id = `${envelope.id}#${envelope.digest.slice(0, 16)}`;
  const error = { type: reason, message, traceback: '' };
  return { kind: 'message', envelope: { ...envelope, id }, reason, error };
}

export interface AnswerRefusedDeps {
  readonly ledger: Pick<Ledger, 'recordNeverSent'>;
  readonly runtime: Runtime;
  readonly redact: Redact | null;
  readonly keyring?: Keyring;
  /** Left out: no caller waits at a queue. */
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
