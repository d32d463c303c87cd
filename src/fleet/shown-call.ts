import type { Envelope } from '../task/envelope.ts';
import { itemsOf } from '../task/json-slices.ts';
import { decodeJson, toText } from '../task/json.ts';
import type { Redact } from '../task/redact.ts';
import { describeCall, shorten, type CallDescription } from '../wire/encode-message.ts';
import { readOptions } from '../task/read-options.ts';

const HIDDEN: CallDescription = { args: '"[hidden]"', kwargs: '"[hidden]"' };

/**
 * The arguments of a task as people may see them: the copies that its sender redacted, else the output of this worker's
 * redactor, else the arguments themselves. Cut to a bounded length.
 */
export function shownCall(envelope: Envelope, redact: Redact | null): CallDescription {
  const { redacted } = readOptions(envelope);
  if (redacted !== undefined)
    return { args: shorten(redacted.args), kwargs: shorten(redacted.kwargs) };
  if (redact === null) return describeCall(envelope.body);
  try {
    const [args = '[]', kwargs = '{}'] = itemsOf(toText(envelope.body));
    const shown = redact(envelope.name, { args, kwargs });
    return { args: shorten(shown.args), kwargs: shorten(shown.kwargs) };
  } catch {
    // A body that cannot be read cannot be redacted either.
    return HIDDEN;
  }
}

/** A shown text as a value; one that was cut stays a text. */
export function shownValue(text: string): unknown {
  try {
    return decodeJson(text);
  } catch {
    return text;
  }
}
