import type { Redact } from '../task/redact.ts';
import { shownPayload } from '../task/redacted.ts';
import { withCopies } from '../task/digest.ts';
import type { DeadLetterDetails } from '../ledger/dead-letter.ts';

/**
 * The letter as people may see it. A letter that was stored without copies, by an application or a worker without a redactor,
 * is redacted now.
 */
export function redactLetter(
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
