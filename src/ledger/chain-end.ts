import type { EnvelopeOptions } from '../task/envelope.ts';
import { itemsOf, membersOf } from '../task/json-slices.ts';
import { readSignature } from '../task/signature.ts';
import { groupIn, objectIn } from './expand-signature.ts';

/** The part of a chord that the end of a chain is, and the body of that chord. */
export interface ChainEnd {
  readonly options: Pick<EnvelopeOptions, 'groupId' | 'groupIndex'>;
  readonly chord: string | null;
}

/**
 * What a chain is in a chord whose last signature this is. The options of that signature say it, or, if it is a chord or a chain itself,
 * those of the task at its end.
 */
export function endOfChain(text: string): ChainEnd {
  const { task, kwargs, options } = readSignature(text);
  const [group, chord] = [groupIn(options), objectIn(options, 'chord')];
  const inner = group === null || chord === null ? lastIn(task, kwargs) : undefined;
  if (inner !== undefined) return endOfChain(inner);
  return { options: group === null ? {} : { groupId: group.id, groupIndex: group.index }, chord };
}

function lastIn(task: string, kwargs: string): string | undefined {
  if (task === 'celery.chord') return membersOf(kwargs).get('body');
  return task === 'celery.chain'
    ? itemsOf(membersOf(kwargs).get('tasks') ?? '[]').at(-1)
    : undefined;
}
