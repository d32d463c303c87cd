import { itemsOf, membersOf, objectOf } from './json-slices.ts';
import { toBytes, toText } from './json.ts';
import { jsonFault } from './json-limits.ts';

/**
 * Celery's format for a task that is to be sent later: as a link, an error link, the next step of a chain or the body of a
 * chord. All of them are in the third part of a body, `embed`; `chain` in reverse, so that the next one is the last.
 * Everything here is JSON text, and arguments are never parsed: they pass through unchanged.
 */

/** The third part of a body without follow-ups: always the same bytes. */
export const EMBED = '{"callbacks":null,"errbacks":null,"chain":null,"chord":null}';

/** Our own links, by which a part of a chord reports how it ended: see `chord-link.ts`. */
export const CHORD_LINKS: { readonly done: string; readonly failed: string } = Object.freeze({
  done: 'outlast.chord_part',
  failed: 'outlast.chord_failed',
});

export const isChordLink = (task: string): boolean =>
  task === CHORD_LINKS.done || task === CHORD_LINKS.failed;

/** What follows a task: texts of signatures. */
export interface Embed {
  /** Sent when it is done. */
  readonly callbacks: readonly string[];
  /** Sent when it is dead. */
  readonly errbacks: readonly string[];
  /** The rest of its chain, the next step last; null outside of a chain. */
  readonly chain: readonly string[] | null;
  /** The body of the chord whose header it belongs to. */
  readonly chord: string | null;
}

export interface Signature {
  readonly task: string;
  /** Texts of the positional arguments. */
  readonly args: readonly string[];
  /** Text of the keyword arguments. */
  readonly kwargs: string;
  /** Texts by Celery's names: `task_id`, `queue`, `link_error` and so on. */
  readonly options: ReadonlyMap<string, string>;
  /** True: it takes nothing from the task before it. */
  readonly isImmutable: boolean;
  /** For the body of a chord: how many results it waits for. */
  readonly chordSize: number | null;
}

export interface SignatureParts {
  readonly task: string;
  readonly args: string;
  readonly kwargs: string;
  readonly options: Readonly<Record<string, string | undefined>>;
  readonly isImmutable: boolean;
  readonly chordSize?: number;
  /** Set for Celery's own tasks, which stand for others. */
  readonly kind?: 'group' | 'chord' | 'chain';
}

export function encodeSignature(parts: SignatureParts): string {
  return objectOf({
    task: JSON.stringify(parts.task),
    args: parts.args,
    kwargs: parts.kwargs,
    options: objectOf(parts.options),
    subtask_type: parts.kind === undefined ? 'null' : JSON.stringify(parts.kind),
    immutable: String(parts.isImmutable),
    chord_size: parts.chordSize === undefined ? undefined : String(parts.chordSize),
  });
}

export function encodeEmbed({ callbacks, errbacks, chain, chord }: Embed): string {
  const list = (texts: readonly string[]): string =>
    texts.length === 0 ? 'null' : `[${texts.join(',')}]`;
  return objectOf({
    callbacks: list(callbacks),
    errbacks: list(errbacks),
    chain: chain === null ? 'null' : `[${chain.join(',')}]`,
    chord: chord ?? 'null',
  });
}

const NOTHING: Embed = { callbacks: [], errbacks: [], chain: null, chord: null };

/** False only if nothing can follow: the last bytes are always the same then. */
export function hasFollowUps(body: Uint8Array): boolean {
  const from = body.length - NOTHING_FOLLOWS.length;
  if (from < 0) return true;
  for (let at = 0; at < NOTHING_FOLLOWS.length; at++)
    if (body[from + at] !== NOTHING_FOLLOWS[at]) return true;
  return false;
}

const NOTHING_FOLLOWS = toBytes(`${EMBED}]`);

/** The follow-ups of the task with this body. Throws a plain error when the bytes are not a body. */
export function readEmbed(body: Uint8Array): Embed {
  if (!hasFollowUps(body)) return NOTHING;
  const fault = jsonFault(body);
  if (fault !== null) throw new TypeError(fault);
  const text = toText(body);
  const embed = itemsOf(text)[2] ?? 'null';
  if (embed === 'null') return NOTHING;
  const members = membersOf(embed);
  const list = (key: string): readonly string[] | null => {
    const value = members.get(key) ?? 'null';
    return value === 'null' ? null : itemsOf(value);
  };
  const chord = members.get('chord') ?? 'null';
  return {
    callbacks: list('callbacks') ?? [],
    errbacks: list('errbacks') ?? [],
    chain: list('chain'),
    chord: chord === 'null' ? null : chord,
  };
}

/** Throws a plain error when the text is no signature. */
export function readSignature(text: string): Signature {
  const members = membersOf(text);
  const task: unknown = JSON.parse(members.get('task') ?? 'null');
  if (typeof task !== 'string') throw new TypeError('a signature has no task');
  const options = members.get('options') ?? 'null';
  const size = Number(members.get('chord_size') ?? 'null');
  return {
    task,
    args: itemsOf(members.get('args') ?? '[]'),
    kwargs: members.get('kwargs') ?? '{}',
    options: options === 'null' ? new Map() : membersOf(options),
    isImmutable: members.get('immutable') === 'true',
    chordSize: Number.isInteger(size) && size > 0 ? size : null,
  };
}

/** The same signature with other options, and as the body of a chord of this size; null: its size is not told here. */
export function withOptions(
  text: string,
  options: Readonly<Record<string, string | undefined>>,
  chordSize?: number | null,
): string {
  const members = Object.fromEntries(membersOf(text)) as Record<string, string>;
  const given = Object.fromEntries(membersOf(members['options'] ?? '{}')) as Record<string, string>;
  const size = chordSize === undefined ? {} : { chord_size: String(chordSize) };
  return objectOf({ ...members, options: objectOf({ ...given, ...options }), ...size });
}
