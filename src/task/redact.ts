import type { WireCall } from './input.ts';
import { decodePython, encodeJson } from './json.ts';
import { itemsOf, membersOf, objectOf } from './json-slices.ts';
import { EMBED, isChordLink } from './signature.ts';

/**
 * Makes the copy of a call's arguments that people may see. It gets its own copy, and what it returns never travels:
 * neither the message nor the caller's input can be changed by it.
 */
export type Redactor = (call: {
  readonly name: string;
  readonly args: unknown[];
  readonly kwargs: Record<string, unknown>;
}) => {
  readonly args: readonly unknown[];
  readonly kwargs: Readonly<Record<string, unknown>>;
};

/** What is shown if a redactor failed: nothing of the original. */
const HIDDEN: WireCall = Object.freeze({
  args: '["<hidden: redactor failed>"]',
  kwargs: '{}',
});

/** The shown copy of a call. Never throws. */
export type Redact = (name: string, call: WireCall) => WireCall;

/**
 * Fails closed: a redactor that throws, returns a promise or returns what JSON cannot carry hides everything.
 * `onFailure` gets the kind of the error and not its text, which may quote what was to be hidden.
 */
export function makeRedact(
  redactor: Redactor,
  onFailure: (name: string, error: string) => void,
): Redact {
  return (name, call) => {
    try {
      return applyRedactor(redactor, name, call);
    } catch (error) {
      onFailure(name, error instanceof Error ? error.constructor.name : typeof error);
      return HIDDEN;
    }
  };
}

function applyRedactor(redactor: Redactor, name: string, call: WireCall): WireCall {
  const shown: unknown = redactor({
    name,
    args: decodePython(call.args) as unknown[],
    kwargs: decodePython(call.kwargs) as Record<string, unknown>,
  });
  // The promise is never awaited, so its rejection would go unhandled.
  if (shown instanceof Promise) shown.catch(() => undefined);
  const { args, kwargs } = shown as ReturnType<Redactor>;
  const texts = { args: encodeJson(args), kwargs: encodeJson(kwargs) };
  if (texts.args.startsWith('[') && texts.kwargs.startsWith('{')) return texts;
  throw new TypeError('a redactor returns an array of args and an object of kwargs');
}

/** The third part of a body with the arguments of every step in it as people may see them. */
export function redactEmbed(embed: string, redact: Redact): string {
  if (embed === EMBED) return embed;
  try {
    const members = [...membersOf(embed)].map(([key, text]) => [key, redactSteps(text, redact)]);
    return objectOf(Object.fromEntries(members) as Record<string, string>);
  } catch {
    // Not what Celery writes: nothing of it is shown.
    return 'null';
  }
}

/** Options of a signature that hold further signatures. */
const NESTED: ReadonlySet<string> = new Set(['link', 'link_error', 'chain', 'chord']);
/** Celery's own tasks: their steps are in their arguments. */
const CANVAS = /^"celery\./;

function redactSteps(text: string, redact: Redact): string {
  if (text.startsWith('[')) {
    return `[${itemsOf(text)
      .map(item => redactSteps(item, redact))
      .join(',')}]`;
  }
  return text.startsWith('{') ? redactSignature(text, redact) : text;
}

function shownOf(task: string, call: WireCall, redact: Redact): WireCall {
  if (CANVAS.test(task)) return HIDDEN;
  const name = JSON.parse(task) as string;
  if (!isChordLink(name)) return redact(name, call);
  // A part of a chord has the signature of its body as a text in its arguments.
  const members = Object.fromEntries(membersOf(call.kwargs)) as Record<string, string>;
  const body = JSON.parse(members['body'] ?? 'null') as string;
  const hidden = JSON.stringify(redactSignature(body, redact));
  return { args: call.args, kwargs: objectOf({ ...members, body: hidden }) };
}

function redactSignature(text: string, redact: Redact): string {
  const {
    task = '""',
    options = '{}',
    args = '[]',
    kwargs = '{}',
    ...rest
  } = Object.fromEntries(membersOf(text)) as Partial<Record<string, string>>;
  const shown = shownOf(task, { args, kwargs }, redact);
  const nested = [...membersOf(options)].map(([key, value]) => [
    key,
    NESTED.has(key) ? redactSteps(value, redact) : value,
  ]);
  return objectOf({
    task,
    ...shown,
    options: objectOf(Object.fromEntries(nested) as Record<string, string>),
    ...rest,
  });
}
