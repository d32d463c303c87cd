import { resolveContract, type Contract } from './contract.ts';
import { safeName } from './names.ts';
import type { CeleryOptions, SendOptionsOf, TaskOptions } from './options.generated.ts';
import type { Permit } from './permit.ts';
import type { AnySchema, Following, ShapeOf, TaskShape } from './shape.ts';

export type { CeleryOptions, Permit, TaskOptions, TaskShape };

const TASK: unique symbol = Symbol.for('outlast.task') as never;

type Maybe<S> = S | undefined;

/** Options of one send. */
export interface SendOptions extends SendOptionsOf<Step> {}

/** Input and options of a send; a task without input needs neither. */
export type SendRest<S extends TaskShape> = undefined extends S['input']
  ? [input?: S['input'], options?: SendOptions]
  : [input: S['input'], options?: SendOptions];

/** What `.after` takes: nothing, if no argument is left to give. */
export type AfterRest<S extends TaskShape> = unknown extends S['following']
  ? [rest?: unknown, options?: SendOptions]
  : S['following'] extends Following<unknown, infer Rest>
    ? undefined extends Rest
      ? [rest?: undefined, options?: SendOptions]
      : Record<never, never> extends Rest
        ? [rest?: Rest, options?: SendOptions]
        : [rest: Rest, options?: SendOptions]
    : [rest: never];

/** A contract: data that every side may know. Code that runs lives in a handler. */
export interface Task<S extends TaskShape = TaskShape> {
  readonly [TASK]: true;
  readonly name: string;
  readonly contract: Contract;
  /** Input and options prepared for later: `send` takes it, `sendMany` a list of these. In a chain it takes nothing from the step before. */
  with(...rest: SendRest<S>): TaskCall<S['result'], S['returned']>;
  /** A step that takes the result of the one before as the first of its `params` or `args`, and the rest from here. */
  after(...rest: AfterRest<S>): After<TakesOf<S>, S['result'], S['returned']>;
  /** Carries the types; there is no value behind it. */
  readonly '~shape'?: S;
}

/** A task with its input, not yet sent. */
export interface TaskCall<Result = unknown, Returned = unknown> {
  readonly task: Task;
  readonly input: unknown;
  readonly options: SendOptions;
  readonly '~result'?: Result;
  readonly '~returned'?: Returned;
}

/** A task that takes its first argument from the step before. */
export interface After<in Takes = never, out Result = unknown, out Returned = unknown> {
  readonly task: Task;
  readonly rest: unknown;
  readonly options: SendOptions;
  readonly '~takes'?: (value: Takes) => void;
  readonly '~result'?: Result;
  readonly '~returned'?: Returned;
}

/** What may follow a task. */
export type Step = Task | After | TaskCall;

/** What may follow in a chain: also tasks in parallel, whose results the next step takes as a list. */
export type ChainStep = Step | GroupCall | GroupStep;

/** Tasks one after the other; made by `chain`. */
export interface ChainCall<Result = unknown, Returned = unknown> {
  readonly flow: 'chain';
  readonly first: TaskCall;
  readonly rest: readonly ChainStep[];
  readonly '~result'?: Result;
  readonly '~returned'?: Returned;
}

/** Tasks in parallel; made by `group`. */
export interface GroupCall<Result = unknown, Returned = unknown> {
  readonly flow: 'group';
  readonly members: readonly Member[];
  readonly '~result'?: Result;
  readonly '~returned'?: Returned;
}

/** Tasks in parallel of which some take the result of the step before: only in a chain. Made by `group`. */
export interface GroupStep<M = unknown, Result = unknown, Returned = unknown> {
  readonly flow: 'group';
  readonly members: readonly (Member | Step)[];
  readonly '~member'?: M;
  readonly '~result'?: Result;
  readonly '~returned'?: Returned;
}

/** Tasks in parallel, and one that takes all their results; made by `chord`, and by a `chain` that begins so. */
export interface ChordCall<Result = unknown> {
  readonly flow: 'chord';
  readonly header: readonly Member[];
  readonly body: Step;
  /** What follows the body; missing: nothing. */
  readonly rest?: readonly ChainStep[];
  readonly '~result'?: Result;
}

/** The members of a group or of a chord's header. */
export type Member<Result = unknown, Returned = unknown> =
  | TaskCall<Result, Returned>
  | ChainCall<Result, Returned>;

/** What can be sent: a task with its input, or a workflow. */
export type Call<Result = unknown> =
  | TaskCall<Result>
  | ChainCall<Result>
  | GroupCall<Result>
  | ChordCall<Result>;

/** What a sender gives: the input of the schema. */
export type InputOf<T> = T extends Task<infer S> ? S['input'] : never;
/** What the handler gets: the output of the schema of the input. */
export type ParsedOf<T> = T extends Task<infer S> ? S['parsed'] : never;
/** What the handler returns: the input of the schema of the result. */
export type ReturnedOf<T> =
  T extends Task<infer S>
    ? S['returned']
    : T extends { readonly '~returned'?: infer R }
      ? R
      : never;
/** What `result()` gives: the output of the schema of the result. */
export type ResultOf<T> =
  T extends Task<infer S> ? S['result'] : T extends { readonly '~result'?: infer R } ? R : never;

/** What a task takes from the one before it. */
export type TakesOf<S extends TaskShape> =
  S['following'] extends Following<infer Takes, unknown> ? Takes : never;

/**
 * Declares a task: its name, its schemas and what every side must know about it.
 *
 * @example
 * const sendReceipt = task('shop.send-receipt', {
 *   input: z.object({ orderId: z.string() }), result: z.object({ mailId: z.string() }), timeout: '30s',
 * });
 */
export function task<
  const I extends Maybe<AnySchema> = undefined,
  const R extends Maybe<AnySchema> = undefined,
  const A extends Maybe<AnySchema> = undefined,
  const K extends Maybe<AnySchema> = undefined,
  const P extends Maybe<readonly string[]> = undefined,
>(name: string, options: TaskOptions<I, R, A, K, P> = {}): Task<ShapeOf<I, R, A, K, P>> {
  const contract = resolveContract(safeName(name, 'task name'), options);
  const made: Task = {
    [TASK]: true,
    name,
    contract,
    with: (input?: unknown, sendOptions?: SendOptions) => ({
      task: made,
      input,
      options: sendOptions ?? {},
    }),
    after: (rest?: unknown, sendOptions?: SendOptions) => ({
      task: made,
      rest,
      options: sendOptions ?? {},
    }),
  };
  return made as Task<ShapeOf<I, R, A, K, P>>;
}

export function isTask(value: unknown): value is Task {
  return typeof value === 'object' && value !== null && TASK in value;
}
