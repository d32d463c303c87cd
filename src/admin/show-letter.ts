import type { Redact } from '../task/redact.ts';
import { shownPayload } from '../task/redacted.ts';
import { withCopies } from '../task/digest.ts';
import type { DeadLetterDetails } from '../ledger/dead-letter.ts';
import type { LedgerReads } from '../ledger/ledger-reads.ts';
import type { ReadModel } from './read-model.ts';
import { shownCheckpoint } from './shown-checkpoint.ts';

/** A dead letter as people may see it. */
export interface ShownLetter extends DeadLetterDetails {
  /** The progress that a retry continues with, as JSON text; null: none, or it was never begun. */
  readonly checkpointJson: string | null;
}

interface LetterReads {
  readonly reads: Pick<ReadModel, 'showDeadLetter'>;
  readonly ledgerReads: Pick<LedgerReads, 'moments'>;
}

export async function showLetter(
  { reads, ledgerReads }: LetterReads,
  id: string,
  redact: Redact | null,
): Promise<ShownLetter | null> {
  const letter = redactLetter(await reads.showDeadLetter(id), redact);
  if (letter === null) return null;
  return { ...letter, checkpointJson: await shownCheckpoint(ledgerReads, id, redact) };
}

/**
 * The letter as people may see it. A letter that was stored without copies, by an application or a worker without a redactor,
 * is redacted now.
 */
function redactLetter(
  letter: DeadLetterDetails | null,
  redact: Redact | null,
): DeadLetterDetails | null {
  if (letter === null || redact === null || letter.isRedacted) return letter;
  const { body, options } = withCopies(letter, redact);
  return {
    ...letter,
    ...shownPayload({ body, options, redactedArgs: null, redactedKwargs: null }),
  };
}
