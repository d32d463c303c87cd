import { outlastError } from '../errors/error.ts';
import type {
  After,
  AfterRest,
  ChainCall,
  ChainStep,
  ChordCall,
  GroupCall,
  GroupStep,
  Member,
  ResultOf,
  ReturnedOf,
  Step,
  TakesOf,
  Task,
  TaskCall,
} from './define-task.ts';
import { isTask } from './define-task.ts';

/** Shown in compiler errors: the step before returns this, and the marked step cannot take it. */
export interface StepThatTakes<Returned> {
  readonly '~must take': Returned;
}

/** What a step takes; a bare task that needs more than that takes nothing. */
type StepTakes<S> =
  S extends Task<infer Shape>
    ? [] extends AfterRest<Shape>
      ? TakesOf<Shape>
      : never
    : S extends After<infer Takes>
      ? Takes
      : never;

/** Shown in compiler errors: two groups follow each other, and a task must stand between them. */
export interface TaskBetweenGroups {
  readonly '~must be': 'a task: a group follows no group';
}

type AnyGroup = { readonly flow: 'group' };

/** The members of a group that cannot take what the step before the group returns. */
type Refusing<M, Returned> = M extends Member
  ? never
  : [Returned] extends [StepTakes<M>]
    ? never
    : M;

type Checked<S, Returned> = [S] extends [TaskCall | GroupCall]
  ? unknown
  : [S] extends [GroupStep<infer M>]
    ? [Refusing<M, Returned>] extends [never]
      ? unknown
      : StepThatTakes<Returned>
    : [Returned] extends [StepTakes<S>]
      ? unknown
      : StepThatTakes<Returned>;

type CheckedSteps<Before, Steps> = Steps extends readonly [infer Next, ...infer Others]
  ? readonly [
      [Before, Next] extends [AnyGroup, AnyGroup]
        ? TaskBetweenGroups
        : Checked<Next, ReturnedOf<Before>>,
      ...CheckedSteps<Next, Others>,
    ]
  : readonly [];

type At<T, K> = K extends keyof T ? T[K] : unknown;

/** In a list of unknown length, every step is checked like the first. */
type CheckedAt<First, Steps extends readonly unknown[], K> = number extends Steps['length']
  ? Checked<Steps[number], ReturnedOf<First> | ReturnedOf<Steps[number]>>
  : At<CheckedSteps<First, Steps>, K>;
type Last<First, Steps> = Steps extends readonly [...unknown[], infer L] ? L : First;

/**
 * Tasks one after the other. A bare task takes the result of the step before as its input, `.after(rest)` as the first of
 * its `params` or `args`, and `.with(input)` takes nothing. A group acts as one task whose result is the list of its
 * results; a group and the task after it are a chord.
 *
 * @example
 * chain(resize.with({ args: ['a.png', 800] }), publish.after({ page: '/' }), announce);
 * @example
 * chain(listPages.with({ site }), group([countWords, countLinks]), report);
 */
export function chain<
  const First extends TaskCall | GroupCall,
  const Steps extends readonly ChainStep[],
>(
  first: First,
  ...steps: {
    // Member by member, so that the compiler points at the step that does not fit.
    [K in keyof Steps]: Steps[K] & CheckedAt<First, Steps, K>;
  }
): ChainOf<First, Steps> {
  return chainOf(first, steps) as ChainOf<First, Steps>;
}

/** A chain that begins with a group is a chord, and has as many rows as the group. */
type ChainOf<First, Steps> = First extends GroupCall
  ? ChordCall<ResultOf<Last<First, Steps>>>
  : ChainCall<ResultOf<Last<First, Steps>>, ReturnedOf<Last<First, Steps>>>;

function chainOf(
  first: TaskCall | GroupCall,
  rest: readonly ChainStep[],
): ChainCall | ChordCall | GroupCall {
  const isGroup = (step: unknown): step is AnyGroup =>
    typeof step === 'object' && step !== null && 'flow' in step && step.flow === 'group';
  const steps: readonly unknown[] = [first, ...rest];
  if (steps.some((step, index) => isGroup(step) && isGroup(steps[index + 1])))
    throw unfit('a group follows no group in a chain', 'Put a task between the two.');
  if (!isGroup(first)) return { flow: 'chain', first, rest };
  const [body, ...others] = rest;
  if (body === undefined) return first;
  return {
    flow: 'chord',
    header: checkMembers(first.members, 'chord'),
    body: body as Step,
    ...(others.length === 0 ? {} : { rest: others }),
  };
}

/** The results of many calls, each at its index. */
export type ResultsOf<C extends readonly unknown[]> = {
  -readonly [K in keyof C]: ResultOf<C[K]>;
};

type ReturnedBy<C extends readonly unknown[]> = { -readonly [K in keyof C]: ReturnedOf<C[K]> };

/**
 * Tasks in parallel. The result is the list of their results. In a chain its members may be steps, which all take the
 * result of the step before.
 *
 * @example
 * group([publish.with(first), publish.with(second)]);
 */
export function group<const C extends readonly (Member | Step)[]>(
  members: C,
): C extends readonly Member[]
  ? GroupCall<ResultsOf<C>, ReturnedBy<C>>
  : GroupStep<C[number], ResultsOf<C>, ReturnedBy<C>> {
  return { flow: 'group', members: checkMembers(members, 'group') } as never;
}

/**
 * Tasks in parallel, and one more when all of them are done: it takes the list of their results, in their order.
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

/** Reports at once, in code without types, what the compiler could not check; otherwise a worker would. */
function checkMembers<M extends Member | Step>(
  members: readonly M[],
  flow: 'group' | 'chord',
): readonly M[] {
  const isStep = (member: object): boolean => isTask(member) || 'rest' in member;
  const isMember = (member: M): boolean =>
    typeof member === 'object' &&
    member !== null &&
    ('flow' in member
      ? member.flow === 'chain'
      : 'input' in member || (flow === 'group' && isStep(member)));
  const list: unknown = members;
  if (Array.isArray(list) && members.every(isMember)) return [...members];
  throw unfit(
    `a ${flow} is made of tasks with their input and of chains`,
    `Write ${flow}([first.with(…), second.with(…)]${flow === 'chord' ? ', last' : ''}).`,
    flow,
  );
}

function unfit(
  message: string,
  hint: string,
  option: 'chain' | 'group' | 'chord' = 'chain',
): Error {
  return outlastError('ERR_OPTION_RANGE', { message, hint, fields: { option } });
}
