import type { Envelope } from '../task/envelope.ts';
import type { BuryItem, CommitItem, FollowUp } from './ledger.ts';

/**
 * Bytes that one call carries to a ledger, unless a single item has more: the store serves no other client while it reads
 * them, and every store limits the size of a call.
 */
export const BATCH_BYTES = 8_388_608;
/** Bytes of follow-ups that one call lists, unless a single one has more. */
export const AFTER_LIST_BYTES = 4_194_304;
/** Messages that one call begins. */
export const BEGIN_COUNT = 1_000;

export const bytesOfEnvelope = ({ body, options }: Envelope): number =>
  body.length + options.length;

/** For a run only the reason is sent. */
export const bytesOfBury = (item: BuryItem): number =>
  item.kind === 'message' ? bytesOfEnvelope(item.envelope) : 0;

export function bytesOfCommit({ outcome, after }: CommitItem): number {
  const result = outcome.kind === 'done' ? (outcome.result?.length ?? 0) : 0;
  let bytes = result;
  for (const entry of after) bytes += bytesOfFollowUp(entry);
  return bytes;
}

/** Added for every entry: the store handles each as a separate step, however short it is. */
const ENTRY_BYTES = 1_024;

function bytesOfFollowUp(entry: FollowUp): number {
  if ('publish' in entry) return ENTRY_BYTES + bytesOfEnvelope(entry.publish);
  if ('reply' in entry) return ENTRY_BYTES + entry.reply.body.length;
  return ENTRY_BYTES + entry.body.length + (entry.part.result?.length ?? 0);
}
