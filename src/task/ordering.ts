import { outlastError } from '../errors/error.ts';
import { rowOf } from '../options/option.ts';
import { TASK_TABLE } from '../options/task-table.ts';
import { refuseUnknown } from './check-option.ts';

export interface Ordering {
  readonly key: (input: unknown) => string;
  /** True: a dead row holds back the rows behind it. */
  readonly parks: boolean;
}

const { members } = rowOf(TASK_TABLE, 'ordering', 'group');
const WHEN_DEAD = rowOf(members, 'whenDead', 'choice');

/** Checks `ordering` of a task's options. */
export function orderingOf(name: string, given: unknown): Ordering | null {
  if (given === undefined) return null;
  const ordering = given as { readonly key?: unknown; readonly whenDead?: unknown };
  refuseUnknown(Object.keys(ordering), Object.keys(members), `\`ordering\` of ${name}`);
  const { key, whenDead = WHEN_DEAD.default } = ordering;
  if (typeof key !== 'function')
    throw orderingError(name, 'key', 'Give a function of the input: input => input.orderId.');
  if (!WHEN_DEAD.choices.includes(whenDead as string))
    throw orderingError(name, 'whenDead', "Use 'park' or 'go-on'.");
  return Object.freeze({ key: key as Ordering['key'], parks: whenDead === 'park' });
}

function orderingError(name: string, option: string, hint: string): Error {
  return outlastError('ERR_OPTION_RANGE', {
    message: `\`ordering.${option}\` of ${name} is not what it must be`,
    hint,
    fields: { option: `ordering.${option}` },
  });
}
