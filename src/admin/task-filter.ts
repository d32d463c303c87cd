import { nearest } from '../options/nearest.ts';
import { outlastError } from '../errors/error.ts';
import type { TaskLine } from '../ledger/task-line.ts';
import { durationMs, type Duration } from '../task/duration.ts';
import { globPattern } from '../task/glob.ts';

/** Which tasks to list. All that is given must hold. */
export interface TaskFilter {
  readonly state?: TaskListState;
  readonly queue?: string;
  /** A glob with `*` and `?`. */
  readonly name?: string;
  /** Sent longer ago than this. */
  readonly olderThan?: Duration;
  /** Sent less long ago than this. */
  readonly newerThan?: Duration;
  /** A part of the last error, in any case of letters. */
  readonly error?: string;
  readonly tenant?: string;
  readonly orderingKey?: string;
  readonly idPrefix?: string;
}

/** `pending`: in the outbox. `waiting`: in the ledger. */
const LIST_STATES = ['running', 'waiting', 'pending', 'dead', 'done', 'cancelled'] as const;
/** The states that a list of tasks can be asked for. */
export type TaskListState = (typeof LIST_STATES)[number];

export type FilterTerm = keyof TaskFilter;

/** The only definition of the terms: for the API, the flags of the CLI, and the reference page. */
export const FILTER_TERMS: Readonly<
  Record<FilterTerm, { readonly value: string; readonly sentence: string }>
> = Object.freeze({
  state: { value: 'state', sentence: `One of ${LIST_STATES.join(', ')}.` },
  queue: { value: 'name', sentence: 'Tasks of this queue.' },
  name: { value: 'glob', sentence: 'Tasks with such a name: `*` is any text, `?` one character.' },
  olderThan: {
    value: 'age',
    sentence: 'Sent longer ago than this: `10m`; a bare number is seconds.',
  },
  newerThan: { value: 'age', sentence: 'Sent less long ago than this.' },
  error: {
    value: 'text',
    sentence: 'With this text in the last error; upper and lower case are equal.',
  },
  tenant: {
    value: 'name',
    sentence: 'Tasks for this tenant. Redis forgets it when a task is over.',
  },
  orderingKey: {
    value: 'key',
    sentence: 'Tasks under this ordering key, while they are in the outbox.',
  },
  idPrefix: { value: 'text', sentence: 'Tasks whose id begins with this.' },
});

export interface ReadFilter {
  readonly state: TaskListState | null;
  readonly queue: string | null;
  readonly name: string | null;
  matches(task: TaskLine, nowMs: number): boolean;
}

/** A text that is longer matches nothing. */
const LONGEST_TEXT = 1_000;

/** Checks a filter that an operator or a program has given. */
export function readFilter(filter: TaskFilter): ReadFilter {
  for (const [term, value] of Object.entries(filter)) checkTerm(term, value);
  const { state = null, queue = null, name = null, error, tenant, orderingKey, idPrefix } = filter;
  if (state !== null && !LIST_STATES.includes(state)) throw wrong('state', state);
  const pattern = globPattern(name ?? '*');
  const olderMs = ageMs(filter.olderThan, 'olderThan');
  const newerMs = ageMs(filter.newerThan, 'newerThan');
  const text = error?.toLowerCase();
  const isEqual = (wanted: string | undefined, found: string | null): boolean =>
    wanted === undefined || wanted === found;
  return {
    state,
    queue,
    name,
    matches: (task, nowMs) => {
      const age = nowMs - Date.parse(task.createdAt);
      return (
        (state === null || task.state === state) &&
        isEqual(queue ?? undefined, task.queue) &&
        pattern.test(task.name) &&
        (olderMs === null || age > olderMs) &&
        (newerMs === null || age < newerMs) &&
        (text === undefined || (task.error ?? '').toLowerCase().includes(text)) &&
        isEqual(tenant, task.tenant) &&
        isEqual(orderingKey, task.orderingKey) &&
        task.id.startsWith(idPrefix ?? '')
      );
    },
  };
}

const ageMs = (age: Duration | undefined, term: string): number | null =>
  age === undefined ? null : durationMs(age, term);

function checkTerm(term: string, value: unknown): void {
  if (!Object.hasOwn(FILTER_TERMS, term)) {
    throw outlastError('ERR_UNKNOWN_OPTION', {
      message: `tasks cannot be listed by ${JSON.stringify(term)}`,
      hint: `The terms are ${Object.keys(FILTER_TERMS).join(', ')}.`,
      fields: { option: term, nearest: nearest(term, Object.keys(FILTER_TERMS)) },
    });
  }
  if (typeof value !== 'string' || value === '' || value.length > LONGEST_TEXT)
    throw wrong(term, value);
}

function wrong(term: string, value: unknown): Error {
  const { sentence } = FILTER_TERMS[term as FilterTerm];
  return outlastError('ERR_OPTION_RANGE', {
    message: `\`${term}\` is ${JSON.stringify(value)?.slice(0, LONGEST_TEXT) ?? 'nothing'}`,
    hint: `${sentence} A text has 1 to ${LONGEST_TEXT} characters.`,
    fields: { option: term },
  });
}
