import { derivedId, digestOf } from './digest.ts';
import type { Envelope } from './envelope.ts';
import { itemsOf, membersOf, objectOf } from './json-slices.ts';
import { isJson, toText } from './json.ts';
import type { Keyring } from './keyring.ts';
import { readOptions } from './read-options.ts';
import {
  CHORD_LINKS,
  encodeSignature,
  isChordLink,
  readEmbed,
  readSignature,
  type Signature,
} from './signature.ts';

/**
 * A part of a chord that reports its end to us alone: where the ledger is not the result backend in which Celery counts,
 * the tasks of a header carry no `chord` of Celery's but a link and an error link to ourselves. Python workers send them
 * as messages, with any result backend or none; our workers count the part instead.
 */

const { done: DONE, failed: FAILED } = CHORD_LINKS;

/** The position of a task in the header of a chord. */
export interface ChordPosition {
  readonly groupId: string;
  readonly index: number;
  readonly size: number;
  /** The signature of the chord's body, as JSON text. It travels as a string, so that no process on the way rewrites it. */
  readonly body: string;
}

/** Where the parts of a chord are reported, and the proof for the receiver that its body is ours. */
export interface ChordReporting {
  /** Python workers send there, resurrectors take from there. */
  readonly queue: string;
  readonly keyring: Pick<Keyring, 'seal'>;
}

export interface ChordLinks {
  readonly done: string;
  readonly failed: string;
}

/** `taskId` is null, so that two sends of the same task give the same text. */
export function chordLinks(
  { groupId, index, size, body }: ChordPosition,
  taskId: string | null,
  { queue, keyring }: ChordReporting,
): ChordLinks {
  const proof = taskId === null ? undefined : keyring.seal(proofDigest(groupId, size, body));
  const kwargs = objectOf({
    group: taskId === null ? undefined : JSON.stringify(groupId),
    place: String(index),
    size: String(size),
    body: JSON.stringify(body),
    proof: proof === undefined ? undefined : JSON.stringify(proof),
  });
  const linkOf = (task: string): string => {
    const id = taskId === null ? undefined : JSON.stringify(derivedId(taskId, task));
    const options = { queue: JSON.stringify(queue), task_id: id, ignore_result: 'true' };
    return encodeSignature({ task, args: '[]', kwargs, options, isImmutable: false });
  };
  return { done: linkOf(DONE), failed: linkOf(FAILED) };
}

/** The position that a link reports on; null: it is any other link. Throws a plain error when it is unreadable. */
export function readChordLink(link: string): ChordPosition | null {
  const signature = readSignature(link);
  return isChordLink(signature.task) ? positionIn(signature.kwargs) : null;
}

function positionIn(kwargs: string): ChordPosition {
  const members = membersOf(kwargs);
  const read = (key: string): unknown => JSON.parse(members.get(key) ?? 'null');
  const [groupId, body] = [read('group'), read('body')];
  const [index, size] = [Number(members.get('place')), Number(members.get('size'))];
  const isInRange = Number.isInteger(index) && index >= 0 && Number.isInteger(size) && index < size;
  if (typeof groupId !== 'string' || groupId === '' || typeof body !== 'string' || !isInRange)
    throw new TypeError('it names no position in a chord');
  readSignature(body);
  return { groupId, index, size, body };
}

/** A part as a Python worker reports it. */
export interface ReportedPart {
  readonly position: ChordPosition;
  /** The task that was the part; for a failed chain the step that failed. */
  readonly taskId: string;
  readonly rootId: string;
  /** JSON text; null: it ended otherwise than done. */
  readonly result: string | null;
}

/** Throws a plain error when the message is not a part of a chord. */
export function readReportedPart({ name, body, options, id }: Envelope): ReportedPart {
  if (!isChordLink(name)) throw new TypeError(`${name} is not a part of a chord`);
  const [args = '[]', kwargs = '{}'] = itemsOf(toText(body));
  const [argument] = itemsOf(args);
  if (argument === undefined) throw new TypeError('it does not report how the part ended');
  const { parentId = id, rootId = parentId } = readOptions({ options });
  // It becomes an argument of the body, which must be readable.
  const result = name === DONE && isJson(argument) ? argument : null;
  return { position: positionIn(kwargs), taskId: parentId, rootId, result };
}

/**
 * Why a reported part must not count, or null when it may. Python signs nothing, so the message itself proves nothing: only
 * a chord that the holder of a key has sent counts, and a body that got such a result is not signed.
 */
export function refusalOfPart(message: Envelope, keyring: Keyring): string | null {
  const [, kwargs = '{}'] = itemsOf(toText(message.body));
  return refusalOfChord(kwargs, keyring);
}

/** The same for a link in a task, which may have come through Python and lost its own signature there. */
export const isProvenLink = (link: string, keyring: Keyring): boolean =>
  refusalOfChord(readSignature(link).kwargs, keyring) === null;

function refusalOfChord(kwargs: string, keyring: Keyring): string | null {
  const { groupId, size, body } = positionIn(kwargs);
  const proof: unknown = JSON.parse(membersOf(kwargs).get('proof') ?? 'null');
  const seal = typeof proof === 'string' ? proof : undefined;
  const ofBody = keyring.refusalOfSeal(proofDigest(groupId, size, body), seal);
  return ofBody === null ? null : `the body of its chord: ${ofBody}`;
}

const proofDigest = (groupId: string, size: number, body: string): string =>
  digestOf({ name: DONE, id: groupId, version: size, body });

/** The id of the letter that records a failed chord: beside its body, whose own id must stay free. */
export const chordLetterId = (bodyId: string): string => `${bodyId}#chord`;

/** A chord as it is known when its header is sent. */
export interface ChordNote {
  readonly groupId: string;
  readonly size: number;
  /** The name of the task that is its body. */
  readonly body: string;
}

/** The chord whose header a message belongs to. An unreadable message gives null here: its reader reports that. */
export function chordOf(message: Pick<Envelope, 'body' | 'options'>): ChordNote | null {
  try {
    const { callbacks, chain, chord } = readEmbed(message.body);
    const { groupId } = readOptions(message);
    if (chord !== null) return noteOf(groupId, readSignature(chord));
    // In a chain the last step is the part.
    const last = chain?.[0] === undefined ? null : readSignature(chain[0]).options;
    const ofLast = last?.get('chord') ?? 'null';
    if (last !== null && ofLast !== 'null') {
      const group: unknown = JSON.parse(last.get('group_id') ?? 'null');
      return noteOf(typeof group === 'string' ? group : undefined, readSignature(ofLast));
    }
    const links = last === null ? callbacks : itemsOf(last.get('link') ?? '[]');
    const position = links.map(readChordLink).find(found => found !== null);
    if (!position) return null;
    return {
      groupId: position.groupId,
      size: position.size,
      body: readSignature(position.body).task,
    };
  } catch {
    return null;
  }
}

function noteOf(
  groupId: string | undefined,
  { chordSize: size, task: body }: Signature,
): ChordNote | null {
  return groupId === undefined || size === null ? null : { groupId, size, body };
}
