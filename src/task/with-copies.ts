import type { Envelope, EnvelopeOptions } from './envelope.ts';
import { toBytes, toText } from './json.ts';
import { itemsOf } from './json-slices.ts';
import { redactEmbed, type Redact } from './redact.ts';
import { EMBED } from './signature.ts';

type Call = Pick<Envelope, 'name' | 'body' | 'options'>;
type Copies = NonNullable<EnvelopeOptions['redacted']>;

/** What is shown of an unreadable body: a redactor cannot read it either. */
export const HIDDEN_COPIES: Copies = Object.freeze({ args: '"[hidden]"', kwargs: '"[hidden]"' });

/**
 * The task with redacted copies of its arguments, if its sender has made none: Python makes none, and neither does an
 * application without a redactor. Its bytes and its digest stay unchanged.
 */
export function withCopies<T extends Call>(envelope: T, redact: Redact | null): T {
  if (redact === null) return envelope;
  const options = optionsOf(envelope);
  if (options.redacted !== undefined) return envelope;
  const redacted = copiesOf(envelope, redact);
  return { ...envelope, options: toBytes(JSON.stringify({ ...options, redacted })) };
}

/** The copies of a call; hidden if its body is not what Celery writes. Never throws. */
function copiesOf({ name, body }: Pick<Envelope, 'name' | 'body'>, redact: Redact): Copies {
  try {
    const [args = '', kwargs = '', embed = EMBED] = itemsOf(toText(body));
    if (!args.startsWith('[') || !kwargs.startsWith('{')) return HIDDEN_COPIES;
    return { ...redact(name, { args, kwargs }), embed: redactEmbed(embed, redact) };
  } catch {
    return HIDDEN_COPIES;
  }
}

function optionsOf({ options }: Call): EnvelopeOptions {
  try {
    const read: unknown = JSON.parse(toText(options));
    return typeof read === 'object' && read !== null && !Array.isArray(read) ? read : {};
  } catch {
    return {};
  }
}
