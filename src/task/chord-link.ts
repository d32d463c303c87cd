import { derivedId, digestOf } from './digest.ts';
import type { Envelope } from './envelope.ts';
import { itemsOf, membersOf, objectOf } from './json-slices.ts';
import { isJson, toBytes, toText } from './json.ts';
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
 * A part of a chord that tells us, and nobody else, how it ended: where the ledger is not the result backend in which
 * Celery counts, the tasks of a header carry no `chord` of Celery's but a link and an error link to ourselves. Workers of
 * Python send them as messages, with any result backend or none; ours count the part instead.
 */

const { done: DONE, failed: FAILED } = CHORD_LINKS;

/** The place of a task in the header of a chord. */
export interface ChordPlace {
  readonly groupId: string;
  readonly index: number;
  readonly size: number;
  /** The signature of the chord's body, as JSON text. It travels as a text, so that nobody on the way writes it anew. */
  readonly body: string;
}

/** Where the parts of a chord are told, and by what those who hear of them know that its body is ours. */
export interface ChordTelling {
  /** Workers of Python send there, resurrectors take from there. */
  readonly queue: string;
  readonly keyring: Pick<Keyring, 'sign'>;
}

export interface ChordLinks {
  readonly done: string;
  readonly failed: string;
}

/** `taskId` null: two sends of the same are to be the same text. */
export function chordLinks(
  { groupId, index, size, body }: ChordPlace,
  taskId: string | null,
  { queue, keyring }: ChordTelling,
): ChordLinks {
  const proof = taskId === null ? undefined : keyring.sign(proofDigest(groupId, size, body));
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

/** The place whose part a link tells of; null: it is any other link. Throws a plain error when nobody can read it. */
export function readChordLink(link: string): ChordPlace | null {
  const signature = readSignature(link);
  return isChordLink(signature.task) ? placeIn(signature.kwargs) : null;
}

function placeIn(kwargs: string): ChordPlace {
  const members = membersOf(kwargs);
  const read = (key: string): unknown => JSON.parse(members.get(key) ?? 'null');
  const [groupId, body] = [read('group'), read('body')];
  const [index, size] = [Number(members.get('place')), Number(members.get('size'))];
  const isPlace = Number.isInteger(index) && index >= 0 && Number.isInteger(size) && index < size;
  if (typeof groupId !== 'string' || groupId === '' || typeof body !== 'string' || !isPlace)
    throw new TypeError('it names no place of a chord');
  readSignature(body);
  return { groupId, index, size, body };
}

/** What a worker of Python tells of a part. */
export interface ToldPart {
  readonly place: ChordPlace;
  /** The task that was the part; of a chain that failed the step that did. */
  readonly taskId: string;
  readonly rootId: string;
  /** JSON text; null: it ended otherwise than done. */
  readonly result: string | null;
}

/** Throws a plain error when the message is not a part of a chord. */
export function readToldPart({ name, body, options, id }: Envelope): ToldPart {
  if (!isChordLink(name)) throw new TypeError(`${name} is not a part of a chord`);
  const [args = '[]', kwargs = '{}'] = itemsOf(toText(body));
  const [argument] = itemsOf(args);
  if (argument === undefined) throw new TypeError('it does not say how the part ended');
  const { parentId = id, rootId = parentId } = readOptions({ options });
  // Python also writes NaN and Infinity, which nobody else could read in the arguments of a body.
  const result = name === DONE && isJson(argument) ? argument : null;
  return { place: placeIn(kwargs), taskId: parentId, rootId, result };
}

/** Why a told part must not count, or null when it may: what its chord sends is signed by us. */
export function refusalOfPart(message: Envelope, keyring: Keyring): string | null {
  const refusal = keyring.refusalOf(message);
  if (refusal !== null) return refusal;
  const [, kwargs = '{}'] = itemsOf(toText(message.body));
  const { groupId, size, body } = placeIn(kwargs);
  const signature: unknown = JSON.parse(membersOf(kwargs).get('proof') ?? 'null');
  const options = toBytes(JSON.stringify(typeof signature === 'string' ? { signature } : {}));
  const digest = proofDigest(groupId, size, body);
  const ofBody = keyring.refusalOf({ queue: '', digest, options });
  return ofBody === null ? null : `the body of its chord: ${ofBody}`;
}

const proofDigest = (groupId: string, size: number, body: string): string =>
  digestOf({ name: DONE, id: groupId, version: size, body });

/** Where it is kept that a chord has failed: beside its body, whose own id must stay free. */
export const chordLetterId = (bodyId: string): string => `${bodyId}#chord`;

/** A chord as it is known when its header is sent. */
export interface ChordNote {
  readonly groupId: string;
  readonly size: number;
  /** The name of the task that is its body. */
  readonly body: string;
}

/** The chord whose header a message belongs to. What cannot be read says nothing here: its reader finds that out. */
export function chordOf(message: Pick<Envelope, 'body' | 'options'>): ChordNote | null {
  try {
    const { callbacks, chain, chord } = readEmbed(message.body);
    const { groupId } = readOptions(message);
    if (chord !== null) return noteOf(groupId, readSignature(chord));
    // Of a chain the last step is the part.
    const last = chain?.[0] === undefined ? null : readSignature(chain[0]).options;
    const ofLast = last?.get('chord') ?? 'null';
    if (last !== null && ofLast !== 'null') {
      const group: unknown = JSON.parse(last.get('group_id') ?? 'null');
      return noteOf(typeof group === 'string' ? group : undefined, readSignature(ofLast));
    }
    const links = last === null ? callbacks : itemsOf(last.get('link') ?? '[]');
    const place = links.map(readChordLink).find(found => found !== null);
    if (!place) return null;
    return { groupId: place.groupId, size: place.size, body: readSignature(place.body).task };
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
