import type { ChordPosition } from '../task/chord-link.ts';
import type { Envelope, EnvelopeOptions } from '../task/envelope.ts';
import { safeKey } from '../task/names.ts';
import { readSignature } from '../task/signature.ts';
import { countedGroup } from './open-chord.ts';
import { NO_INDEX, textIn } from './expand-signature.ts';
import type { ChordPart, ChordPartEntry, ErrorRecord, FollowUp, Parent } from './ledger.ts';

/** A task that belongs to the header of a chord. */
interface Part {
  readonly envelope: Envelope;
  readonly options: Pick<EnvelopeOptions, 'groupId' | 'groupIndex'>;
  readonly chord: string | null;
  readonly parent: Parent;
}

/** A result as JSON text, or why there is none; null: that is unknown. */
type PartEnd = string | ErrorRecord | null;

const endOf = (result: PartEnd): Pick<ChordPart, 'result' | 'error'> =>
  typeof result === 'string' || result === null ? { result } : { result: null, error: result };

/** The part that it is of its chord, if it is in one. */
export function partEntry(
  { envelope, options, chord, parent }: Part,
  result: PartEnd,
  deps: Parameters<typeof countedGroup>[2],
): FollowUp[] {
  const { groupId, groupIndex } = options;
  if (chord === null || groupId === undefined || groupId === '') return [];
  const body = readSignature(chord);
  const bodyId = textIn(body.options, 'task_id');
  // An id that no ledger can hold is refused unchanged.
  safeKey(groupId, 'the id of a group');
  const part: ChordPart = {
    groupId: countedGroup(groupId, parent, deps),
    index: groupIndex ?? NO_INDEX,
    size: body.chordSize,
    taskId: envelope.id,
    ...(bodyId === null ? {} : { bodyId }),
    ...endOf(result),
    ...(parent.isSigned === true ? { isSigned: true } : {}),
  };
  checkPosition(part);
  return [{ key: partKey(envelope.id, part), part, body: chord, parent }];
}

const MOST_PARTS = NO_INDEX + 1;

/** One index that a ledger cannot hold would keep all other parts of its batch from being counted. */
function checkPosition({ groupId, taskId, index, size }: ChordPart): void {
  safeKey(groupId, 'the id of a group');
  safeKey(taskId, 'the id of a part');
  const isInRange = Number.isInteger(index) && index >= 0 && index < MOST_PARTS;
  if (!isInRange || (size !== null && size > MOST_PARTS))
    throw new TypeError(`part ${index} of ${size ?? 'a chord'} is no place`);
}

/**
 * A part whose index in a chord comes from its link, or was reported by another process. Throws a plain error when the
 * index is invalid.
 */
export function linkedPart(
  { groupId, index, size, body }: ChordPosition,
  taskId: string,
  result: PartEnd,
  parent: Parent,
): ChordPartEntry {
  const bodyId = textIn(readSignature(body).options, 'task_id');
  const part: ChordPart = {
    groupId,
    index,
    size,
    taskId,
    ...(bodyId === null ? {} : { bodyId }),
    ...endOf(result),
    ...(parent.isSigned === true ? { isSigned: true } : {}),
  };
  checkPosition(part);
  return { key: partKey(taskId, part), part, body, parent };
}

const partKey = (taskId: string, { result }: Pick<ChordPart, 'result'>): string =>
  `${taskId}/chord${result === null ? '-failed' : ''}`;
