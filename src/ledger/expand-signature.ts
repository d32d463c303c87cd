import { derivedId } from '../task/digest.ts';
import type { ChordSize } from '../task/envelope.ts';
import { itemsOf, membersOf } from '../task/json-slices.ts';
import { decodePython } from '../task/json.ts';
import { readSignature, withOptions, type Signature } from '../task/signature.ts';

/** Where a signature is sent from: it gets this id unless it has its own, and follows a task with this result. */
export interface SendContext {
  readonly id: string;
  /** JSON text put in front of the arguments; null: none. */
  readonly argument: string | null;
  /** The rest of the chain, the next step last; null outside of a chain. */
  readonly chain: readonly string[] | null;
  readonly group?: { readonly id: string; readonly index: number };
  /** Body of the chord whose header this belongs to. */
  readonly chord?: string;
  /** Chords are counted where Celery counts, which takes their size from there and not from their messages. */
  readonly countsUnsized?: boolean | undefined;
}

/** One task to send: a signature with everything its context adds. */
export interface Sending {
  readonly signature: Signature;
  readonly id: string;
  readonly args: string;
  readonly callbacks: readonly string[];
  readonly errbacks: readonly string[];
  readonly chain: readonly string[] | null;
  readonly group: { readonly id: string; readonly index: number } | null;
  readonly chord: string | null;
  /** The chords whose headers it belongs to, the innermost first, if their sizes must be known before it is sent. */
  readonly announced?: readonly ChordSize[];
}

/**
 * The tasks that a signature stands for. Most stand for themselves; groups, chords and chains inside a chain are split up
 * here, as a Celery worker does it.
 */
export function expandSignature(text: string, context: SendContext): readonly Sending[] {
  const signature = readSignature(text);
  switch (signature.task) {
    case 'celery.group':
      return expandGroup(signature, context);
    case 'celery.chord':
      return expandChord(signature, context);
    case 'celery.chain':
      return expandChain(signature, context);
    default:
      return [expandTask(signature, context)];
  }
}

/** Their items are fixed, and Celery passes nothing else to them. */
const TAKES_NO_RESULT: ReadonlySet<string> = new Set(['celery.map', 'celery.starmap']);

function expandTask(signature: Signature, context: SendContext): Sending {
  const { options } = signature;
  const args =
    context.argument === null || signature.isImmutable || TAKES_NO_RESULT.has(signature.task)
      ? signature.args
      : [context.argument, ...signature.args];
  return {
    signature,
    id: textIn(options, 'task_id') ?? context.id,
    args: `[${args.join(',')}]`,
    callbacks: listIn(options, 'link') ?? [],
    errbacks: listIn(options, 'link_error') ?? [],
    chain: context.chain ?? listIn(options, 'chain'),
    group: context.group ?? groupIn(options),
    chord: context.chord ?? objectIn(options, 'chord'),
  };
}

function expandGroup(signature: Signature, context: SendContext): readonly Sending[] {
  // A group that a task follows is the header of a chord; a rest that no member could send must not end in silence.
  if (restAfter(signature, context)?.length)
    throw new TypeError(
      'a group in a chain is followed by a task that is not the body of its chord',
    );
  const id = textIn(signature.options, 'task_id') ?? context.id;
  const chord = context.chord ?? objectIn(signature.options, 'chord');
  const argument = signature.isImmutable ? null : context.argument;
  const tasks = listIn(membersOf(signature.kwargs), 'tasks') ?? [];
  return tasks.flatMap((task, index) =>
    expandSignature(withErrbacks(withLinks(task, signature), signature), {
      id: derivedId(id, `group:${index}`),
      argument,
      chain: null,
      group: { id, index },
      ...(chord === null ? {} : { chord }),
      countsUnsized: context.countsUnsized,
    }),
  );
}

/** Sends the header now; the worker that completes the count sends the body, with the rest of the chain. */
function expandChord(signature: Signature, context: SendContext): readonly Sending[] {
  const { options, kwargs } = signature;
  const parts = membersOf(kwargs);
  const body = parts.get('body') ?? 'null';
  if (body === 'null') throw new TypeError('a chord has no body');
  const header = headerOf(parts.get('header') ?? '[]', context.id);
  const bodyId = textIn(readSignature(body).options, 'task_id') ?? textIn(options, 'task_id');
  const chain = restAfter(signature, context);
  const { countsUnsized } = context;
  const size = header.tasks.length;
  const finished = withOptions(
    withErrbacks(withLinks(body, signature), signature),
    {
      task_id: JSON.stringify(bodyId ?? derivedId(header.id, 'chord')),
      ...(chain === null ? {} : { chain: restOf(body, chain) }),
      // A chord in the header of another, or at the end of a chain there, counts there when its body is done.
      ...placeOf(context.group ?? groupIn(options), context.chord ?? objectIn(options, 'chord')),
    },
    countsUnsized === true ? null : size,
  );
  if (size === 0)
    return expandSignature(finished, {
      id: context.id,
      argument: '[]',
      chain: null,
      countsUnsized,
    });
  const sendings = header.tasks.flatMap((task, index) =>
    expandSignature(task, {
      id: derivedId(header.id, `group:${index}`),
      argument: context.argument,
      chain: null,
      group: { id: header.id, index },
      chord: finished,
      countsUnsized,
    }),
  );
  if (countsUnsized !== true) return sendings;
  const own: ChordSize = { groupId: header.id, size };
  return sendings.map(sending => ({ ...sending, announced: [...(sending.announced ?? []), own] }));
}

/** A group, or the bare list of its tasks. */
export function headerOf(
  text: string,
  fallbackId: string,
): { readonly id: string; readonly tasks: readonly string[] } {
  const derived = derivedId(fallbackId, 'group');
  if (text.startsWith('[')) return { id: derived, tasks: itemsOf(text) };
  const group = readSignature(text);
  return {
    id: textIn(group.options, 'task_id') ?? derived,
    tasks: listIn(membersOf(group.kwargs), 'tasks') ?? [],
  };
}

function expandChain(signature: Signature, context: SendContext): readonly Sending[] {
  const { options } = signature;
  const { id, countsUnsized } = context;
  // What follows the chain itself: Celery 5.2 writes the rest after a chain that is the body of a chord so.
  const after = restAfter(signature, context);
  const own = (listIn(membersOf(signature.kwargs), 'tasks') ?? []).map((text, index, tasks) =>
    withErrbacks(index === tasks.length - 1 ? withLinks(text, signature) : text, signature),
  );
  const [first, ...rest] = own;
  const argument = signature.isImmutable ? null : context.argument;
  if (first === undefined) return expandRest(after ?? [], { ...context, argument });
  const group = context.group ?? groupIn(options);
  const chord = context.chord ?? objectIn(options, 'chord');
  const left = [...(after ?? []), ...rest.toReversed()];
  const [last, ...between] = left;
  if (last === undefined)
    return expandSignature(first, {
      id,
      argument,
      chain: after,
      ...(group === null ? {} : { group }),
      ...(chord === null ? {} : { chord }),
      countsUnsized,
    });
  // Group and chord count when the last step is done.
  const isCounted = group !== null || chord !== null;
  const chain = isCounted ? [withOptions(last, placeOf(group, chord)), ...between] : left;
  const firstId = rest.length === 0 ? id : derivedId(id, 'chain');
  return expandSignature(first, { id: firstId, argument, chain, countsUnsized });
}

/** A chain without steps of its own: what follows it, if anything does, takes its place. */
function expandRest(chain: readonly string[], context: SendContext): readonly Sending[] {
  const next = chain.at(-1);
  return next === undefined ? [] : expandSignature(next, { ...context, chain: chain.slice(0, -1) });
}

/** What follows the signature: the rest that stands in its own options, then that of the chain around it. */
function restAfter({ options }: Signature, { chain }: SendContext): readonly string[] | null {
  const own = listIn(options, 'chain');
  return own === null ? chain : [...(chain ?? []), ...own];
}

/** The rest of a chain behind the body of a chord, as JSON: the body may be followed by something itself. */
function restOf(body: string, chain: readonly string[]): string {
  const own = listIn(readSignature(body).options, 'chain') ?? [];
  return `[${[...chain, ...own].join(',')}]`;
}

/** The options that count a task in the header of a chord. */
function placeOf(group: Sending['group'], chord: string | null): Record<string, string> {
  return {
    ...(group === null
      ? {}
      : { group_id: JSON.stringify(group.id), group_index: String(group.index) }),
    ...(chord === null ? {} : { chord }),
  };
}

/** A task in a group, chord or chain that has error links: whichever fails calls them. */
const withErrbacks = (text: string, { options }: Signature): string =>
  withMore(text, 'link_error', listIn(options, 'link_error'));

/** The tasks whose end is that of a chord, chain or group with links. */
const withLinks = (text: string, { options }: Signature): string =>
  withMore(text, 'link', listIn(options, 'link'));

function withMore(text: string, key: string, more: readonly string[] | null): string {
  if (more === null || more.length === 0) return text;
  const own = listIn(readSignature(text).options, key) ?? [];
  return withOptions(text, { [key]: `[${[...new Set([...own, ...more])].join(',')}]` });
}

export function groupIn(options: Texts): Sending['group'] {
  const id = textIn(options, 'group_id');
  return id === null ? null : { id, index: indexIn(options) };
}

type Texts = ReadonlyMap<string, string>;

/** Celery 5.2 gives the tasks of a group that is no chord no index: they come after those that have one. */
export const NO_INDEX = 2_147_483_646;

function indexIn(options: Texts): number {
  const text = options.get('group_index') ?? 'null';
  return text === 'null' ? NO_INDEX : Number(text);
}

export function textIn(texts: Texts, key: string): string | null {
  const value = decodePython(texts.get(key) ?? 'null');
  return typeof value === 'string' && value !== '' ? value : null;
}

export function listIn(texts: Texts, key: string): readonly string[] | null {
  const text = texts.get(key) ?? 'null';
  if (text === 'null') return null;
  // Celery takes a single signature for a list of one.
  return text.startsWith('[') ? itemsOf(text) : [text];
}

export function objectIn(texts: Texts, key: string): string | null {
  const text = texts.get(key) ?? 'null';
  return text.startsWith('{') ? text : null;
}
