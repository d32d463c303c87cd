import { derivedId } from '../task/digest.ts';
import { itemsOf, membersOf } from '../task/json-slices.ts';
import { readSignature, withOptions, type Signature } from '../task/signature.ts';

/** A signature is sent here: under this id unless it has its own, after a task that gave this. */
export interface SendingPlace {
  readonly id: string;
  /** JSON text that goes in front of the arguments; null: nothing does. */
  readonly argument: string | null;
  /** What is left of the chain, the next one last; null outside of one. */
  readonly chain: readonly string[] | null;
  readonly group?: { readonly id: string; readonly index: number };
  /** Body of the chord whose header this belongs to. */
  readonly chord?: string;
}

/** One task to send: a signature with everything it is given by its place. */
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
 * The tasks that a signature stands for. Most stand for themselves; groups, chords and chains inside of a chain are
 * taken apart here, as a Celery worker does it.
 */
export function expandSignature(text: string, place: SendingPlace): readonly Sending[] {
  const signature = readSignature(text);
  switch (signature.task) {
    case 'celery.group':
      return expandGroup(signature, place);
    case 'celery.chord':
      return expandChord(signature, place);
    case 'celery.chain':
      return expandChain(signature, place);
    default:
      return [expandTask(signature, place)];
  }
}

function expandTask(signature: Signature, place: SendingPlace): Sending {
  const { options } = signature;
  const args =
    place.argument === null || signature.isImmutable
      ? signature.args
      : [place.argument, ...signature.args];
  const groupId = textIn(options, 'group_id');
  const ownGroup =
    groupId === null ? null : { id: groupId, index: Number(options.get('group_index') ?? 0) };
  return {
    signature,
    id: textIn(options, 'task_id') ?? place.id,
    args: `[${args.join(',')}]`,
    callbacks: listIn(options, 'link') ?? [],
    errbacks: listIn(options, 'link_error') ?? [],
    chain: place.chain ?? listIn(options, 'chain'),
    group: place.group ?? ownGroup,
    chord: place.chord ?? objectIn(options, 'chord'),
  };
}

function expandGroup(signature: Signature, place: SendingPlace): readonly Sending[] {
  const id = textIn(signature.options, 'task_id') ?? place.id;
  const chord = place.chord ?? objectIn(signature.options, 'chord');
  const argument = signature.isImmutable ? null : place.argument;
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

/** The header now, the body by whoever completes the count: with what is left of the chain. */
function expandChord(signature: Signature, place: SendingPlace): readonly Sending[] {
  const { options, kwargs } = signature;
  const parts = membersOf(kwargs);
  const body = parts.get('body') ?? 'null';
  if (body === 'null') throw new TypeError('a chord has no body');
  const header = headerOf(parts.get('header') ?? '[]', place.id);
  const bodyId = textIn(readSignature(body).options, 'task_id') ?? textIn(options, 'task_id');
  const finished = withOptions(
    body,
    {
      task_id: JSON.stringify(bodyId ?? derivedId(header.id, 'chord')),
      ...(place.chain === null ? {} : { chain: `[${place.chain.join(',')}]` }),
      // A chord in the header of another counts there when its body is done.
      ...(place.group === undefined
        ? {}
        : { group_id: JSON.stringify(place.group.id), group_index: String(place.group.index) }),
      ...(place.chord === undefined ? {} : { chord: place.chord }),
    },
    header.tasks.length,
  );
  if (header.tasks.length === 0)
    return expandSignature(finished, { id: place.id, argument: '[]', chain: null });
  return header.tasks.flatMap((task, index) =>
    expandSignature(task, {
      id: derivedId(header.id, `group:${index}`),
      argument: place.argument,
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

function expandChain(signature: Signature, place: SendingPlace): readonly Sending[] {
  const [first, ...rest] = listIn(membersOf(signature.kwargs), 'tasks') ?? [];
  if (first === undefined) return [];
  const argument = signature.isImmutable ? null : place.argument;
  const left = [...(place.chain ?? []), ...rest.toReversed()];
  const { group, chord, id } = place;
  const ofPlace = { ...(group ? { group } : {}), ...(chord === undefined ? {} : { chord }) };
  if (rest.length === 0) return expandSignature(first, { ...place, argument });
  // Group and chord count when the last step is done.
  const last = withOptions(left[0] ?? '', {
    ...(group === undefined
      ? {}
      : { group_id: JSON.stringify(group.id), group_index: String(group.index) }),
    ...(chord === undefined ? {} : { chord }),
  });
  const chain = Object.keys(ofPlace).length === 0 ? left : [last, ...left.slice(1)];
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
