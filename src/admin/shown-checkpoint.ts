import type { LedgerReads } from '../ledger/ledger-reads.ts';
import { toText } from '../task/json.ts';
import type { Redact } from '../task/redact.ts';

/** A reference to a large checkpoint in a folder begins so; JSON never does. */
const NUL = 0x00;

/**
 * The progress that the next run would continue with, as JSON text: the place, size and digest of one that is kept in a
 * folder. Null: there is none, or the task is over. With a redactor it is hidden: a redactor knows arguments only.
 */
export async function shownCheckpoint(
  ledgerReads: Pick<LedgerReads, 'moments'>,
  id: string,
  redact: Redact | null,
): Promise<string | null> {
  const bytes = (await ledgerReads.moments([id]))[0]?.checkpoint ?? null;
  if (bytes === null) return null;
  if (redact !== null) return '"[hidden]"';
  return toText(bytes[0] === NUL ? bytes.subarray(1) : bytes);
}
