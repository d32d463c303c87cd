import { derivedId } from '../task/digest.ts';
import { itemsOf, membersOf } from '../task/json-slices.ts';
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

function expandTask(signature: Signature, context: SendContext): Sending {
  const { options } = signature;
  const args =
    context.argument === null || signature.isImmutable
      ? signature.args
      : [context.argument, ...signature.args];
  const groupId = textIn(options, 'group_id');
  const ownGroup =
    groupId === null ? null : { id: groupId, index: Number(options.get('group_index') ?? 0) };
  return {
    signature,
    id: textIn(options, 'task_id') ?? context.id,
    args: `[${args.join(',')}]`,
    callbacks: listIn(options, 'link') ?? [],
    errbacks: listIn(options, 'link_error') ?? [],
    chain: context.chain ?? listIn(options, 'chain'),
    group: context.group ?? ownGroup,
    chord: context.chord ?? objectIn(options, 'chord'),
  };
}

function expandGroup(signature: Signature, context: SendContext): readonly Sending[] {
  const id = textIn(signature.options, 'task_id') ?? context.id;
  const chord = context.chord ?? objectIn(signature.options, 'chord');
  const argument = signature.isImmutable ? null : context.argument;
  const tasks = listIn(membersOf(signature.kwargs), 'tasks') ?? [];
  return tasks.flatMap((task, index) =>
    expandSignature(task, {
      id: derivedId(id, `group:${index}`),
      argument,
      chain: null,
      group: { id, index },
      ...(chord === null ? {} : { chord }),
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
  const finished = withOptions(
    body,
    {
      task_id: JSON.stringify(bodyId ?? derivedId(header.id, 'chord')),
      ...(context.chain === null ? {} : { chain: `[${context.chain.join(',')}]` }),
      // A chord in the header of another counts there when its body is done.
      ...(context.group === undefined
        ? {}
        : { group_id: JSON.stringify(context.group.id), group_index: String(context.group.index) }),
      ...(context.chord === undefined ? {} : { chord: context.chord }),
    },
    header.tasks.length,
  );
  if (header.tasks.length === 0)
    return expandSignature(finished, { id: context.id, argument: '[]', chain: null });
  return header.tasks.flatMap((task, index) =>
    expandSignature(task, {
      id: derivedId(header.id, `group:${index}`),
      argument: context.argument,
      chain: null,
      group: { id: header.id, index },
      chord: finished,
    }),
  );
}

/** A group, or the bare list of its tasks. */
function headerOf(
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
  const [first, ...rest] = listIn(membersOf(signature.kwargs), 'tasks') ?? [];
  if (first === undefined) return [];
  const argument = signature.isImmutable ? null : context.argument;
  const left = [...(context.chain ?? []), ...rest.toReversed()];
  const { group, chord, id } = context;
  const inherited = { ...(group ? { group } : {}), ...(chord === undefined ? {} : { chord }) };
  if (rest.length === 0) return expandSignature(first, { ...context, argument });
  // Group and chord count when the last step is done.
  const last = withOptions(left[0] ?? '', {
    ...(group === undefined
      ? {}
      : { group_id: JSON.stringify(group.id), group_index: String(group.index) }),
    ...(chord === undefined ? {} : { chord }),
  });
  const chain = Object.keys(inherited).length === 0 ? left : [last, ...left.slice(1)];
  return expandSignature(first, { id: derivedId(id, 'chain'), argument, chain });
}

type Texts = ReadonlyMap<string, string>;

export function textIn(texts: Texts, key: string): string | null {
  const value: unknown = JSON.parse(texts.get(key) ?? 'null');
  return typeof value === 'string' && value !== '' ? value : null;
}

function listIn(texts: Texts, key: string): readonly string[] | null {
  const text = texts.get(key) ?? 'null';
  if (text === 'null') return null;
  // Celery takes a single signature for a list of one.
  return text.startsWith('[') ? itemsOf(text) : [text];
}

function objectIn(texts: Texts, key: string): string | null {
  const text = texts.get(key) ?? 'null';
  return text.startsWith('{') ? text : null;
}
