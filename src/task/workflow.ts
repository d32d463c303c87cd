import { outlastError } from '../errors/error.ts';
import type {
  After,
  AfterRest,
  ChainCall,
  ChordCall,
  GroupCall,
  Member,
  ResultOf,
  ReturnedOf,
  Step,
  TakesOf,
  Task,
  TaskCall,
} from './define-task.ts';

/** In a message of the compiler: the step before returns this, and the one it points at cannot take it. */
export interface StepThatTakes<Returned> {
  readonly '~must take': Returned;
}

/** What a step takes; a task alone that must be given more than that takes nothing. */
type StepTakes<S> =
  S extends Task<infer Shape>
    ? [] extends AfterRest<Shape>
      ? TakesOf<Shape>
      : never
    : S extends After<infer Takes>
      ? Takes
      : never;

type Checked<S, Returned> = [S] extends [TaskCall]
  ? unknown
  : [Returned] extends [StepTakes<S>]
    ? unknown
    : StepThatTakes<Returned>;

type CheckedSteps<Steps, Returned> = Steps extends readonly [infer Next, ...infer Others]
  ? readonly [Checked<Next, Returned>, ...CheckedSteps<Others, ReturnedOf<Next>>]
  : readonly [];

type At<T, K> = K extends keyof T ? T[K] : unknown;

/** Steps of a list whose length is not known follow each other as well as the first. */
type CheckedAt<Steps extends readonly unknown[], Returned, K> = number extends Steps['length']
  ? Checked<Steps[number], Returned | ReturnedOf<Steps[number]>>
  : At<CheckedSteps<Steps, Returned>, K>;
type Last<First, Steps> = Steps extends readonly [...unknown[], infer L] ? L : First;

/**
 * Tasks one after the other. A task alone takes the result of the one before as its input, `.after(rest)` as the first
 * of its `params` or `args`, and `.with(input)` takes nothing.
 *
 * @example
 * chain(resize.with({ args: ['a.png', 800] }), publish.after({ page: '/' }), announce);
 */
export function chain<const First extends TaskCall, const Steps extends readonly Step[]>(
  first: First,
  ...steps: {
    // Member by member, so that the compiler points at the step that does not fit.
    [K in keyof Steps]: Steps[K] & CheckedAt<Steps, ReturnedOf<First>, K>;
  }
): ChainCall<ResultOf<Last<First, Steps>>, ReturnedOf<Last<First, Steps>>> {
  return { flow: 'chain', first, rest: steps };
}

/** The results of many calls, each in its place. */
export type ResultsOf<C extends readonly unknown[]> = {
  -readonly [K in keyof C]: ResultOf<C[K]>;
};

type ReturnedBy<C extends readonly unknown[]> = { -readonly [K in keyof C]: ReturnedOf<C[K]> };

/**
 * Tasks beside each other. The result is the list of their results.
 *
 * @example
 * group([publish.with(first), publish.with(second)]);
 */
export function group<const C extends readonly Member[]>(members: C): GroupCall<ResultsOf<C>> {
  return { flow: 'group', members: checkMembers(members, 'group') };
}

/**
 * Tasks beside each other, and one more when all of them are done: it takes the list of their results, in their order.
 *
 * @example
 * chord(urls.map(url => fetchPage.with({ url })), longest);
 */
export function chord<const H extends readonly Member[], const B extends Step>(
  header: H,
  body: B & Checked<B, ReturnedBy<H>>,
): ChordCall<ResultOf<B>> {
  return { flow: 'chord', header: checkMembers(header, 'chord'), body };
}

/** What the compiler did not see, in code without types, is told at once and not by a worker. */
function checkMembers(members: readonly Member[], flow: 'group' | 'chord'): readonly Member[] {
  const isMember = (member: Member): boolean =>
    typeof member === 'object' &&
    member !== null &&
    ('flow' in member ? member.flow === 'chain' : 'input' in member);
  const list: unknown = members;
  if (Array.isArray(list) && members.every(isMember)) return [...members];
  throw outlastError('ERR_OPTION_RANGE', {
    message: `a ${flow} is made of tasks with their input and of chains`,
    hint: `Write ${flow}([first.with(…), second.with(…)]${flow === 'chord' ? ', last' : ''}).`,
    fields: { option: flow },
  });
}
