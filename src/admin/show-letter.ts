import { encodeJson, toBytes } from '../task/json.ts';
import { NO_OPTIONS_BYTES, readOptions } from '../task/read-options.ts';
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
  const options = letter.isRedacted ? withoutHeaders(letter.options) : letter.options;
  return { ...letter, options, checkpointJson: await shownCheckpoint(ledgerReads, id, redact) };
}

/** Their names without their values: a redactor knows arguments only, and headers may be anything. */
function withoutHeaders(bytes: Uint8Array): Uint8Array {
  try {
    const { headers, wire, ...options } = readOptions({ options: bytes });
    const hidden = (table: object): object =>
      Object.fromEntries(Object.keys(table).map(name => [name, '[hidden]']));
    return toBytes(
      encodeJson({
        ...options,
        ...(headers === undefined ? {} : { headers: hidden(headers) }),
        ...(wire === undefined ? {} : { wire: hidden(wire) }),
      }),
    );
  } catch {
    return NO_OPTIONS_BYTES;
  }
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
