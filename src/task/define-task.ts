import { resolveContract, type Contract } from './contract.ts';
import type { Duration } from './duration.ts';
import type { Jsonable } from './json.ts';
import { safeName } from './names.ts';
import type { SchemaInput, SchemaOutput, StandardSchema } from './standard-schema.ts';

const TASK: unique symbol = Symbol.for('outlast.task') as never;

/** The four types of a contract: what `send` takes, what the handler gets, what it returns, what `result()` gives. */
export interface TaskShape {
  readonly input: unknown;
  readonly parsed: unknown;
  readonly returned: unknown;
  readonly result: unknown;
}

type AnySchema = StandardSchema<never, unknown> | StandardSchema<unknown, unknown>;
type Maybe<S> = S | undefined;

/** JSON itself. Types that contain themselves, as the one of `z.json()`, are settled here: walking them never ends. */
type JsonValue =
  | string
  | number
  | boolean
  | null
  | undefined
  | bigint
  | readonly JsonValue[]
  | { readonly [key: string]: JsonValue };

/** A schema whose input JSON would change is not accepted: the compiler points at it. */
type JsonOnly<S> = S extends undefined
  ? S
  : SchemaInput<S> extends JsonValue
    ? S
    : SchemaInput<S> extends Jsonable<SchemaInput<S>>
      ? S
      : never;

export interface TaskOptions<I, R, A, K> {
  /** What the task takes: any Standard Schema. An object travels as Celery's kwargs, anything else as the one argument. */
  readonly input?: I & JsonOnly<I>;
  /** What the handler returns. Left out, no value is kept and `result()` gives nothing. */
  readonly result?: R & JsonOnly<R>;
  /** Positional and keyword arguments as a Python task takes them, instead of `input`. */
  readonly args?: A & JsonOnly<A>;
  readonly kwargs?: K & JsonOnly<K>;
  /** Names for incoming positional arguments, in their order. */
  readonly params?: readonly string[];
  /** Version of the input's shape. @default 1 */
  readonly version?: number;
  /** @default 'default' */
  readonly queue?: string;
  /** 0 to 9, higher first. @default 0 */
  readonly priority?: number;
  /** An attempt is aborted after this. */
  readonly timeout?: Duration;
  /** `ctx.softSignal` fires after this. */
  readonly softTimeout?: Duration;
  /** Not begun later than this after it was sent. */
  readonly expires?: Duration;
  /**
   * Tasks with the same key are published in the order of their commits, one at a time. When one of them becomes a dead
   * letter of the relay, those behind it wait until somebody retries or purges it, or with `'go-on'` do not.
   * `whenDead` is `'park'` unless said.
   */
  readonly ordering?: {
    readonly key: (input: ShapeOf<I, R, A, K>['input']) => string;
    readonly whenDead?: 'park' | 'go-on';
  };
}

type ArgsInput<A, K> = A extends AnySchema
  ? K extends AnySchema
    ? Record<never, never> extends SchemaInput<K>
      ? { readonly args: SchemaInput<A>; readonly kwargs?: SchemaInput<K> }
      : { readonly args: SchemaInput<A>; readonly kwargs: SchemaInput<K> }
    : { readonly args: SchemaInput<A> }
  : K extends AnySchema
    ? { readonly kwargs: SchemaInput<K> }
    : undefined;

type ArgsParsed<A, K> = A extends AnySchema
  ? K extends AnySchema
    ? { readonly args: SchemaOutput<A>; readonly kwargs: SchemaOutput<K> }
    : { readonly args: SchemaOutput<A> }
  : K extends AnySchema
    ? { readonly kwargs: SchemaOutput<K> }
    : undefined;

/** The shape that follows from the schemas a contract names. */
export interface ShapeOf<I, R, A, K> extends TaskShape {
  readonly input: I extends AnySchema ? SchemaInput<I> : ArgsInput<A, K>;
  readonly parsed: I extends AnySchema ? SchemaOutput<I> : ArgsParsed<A, K>;
  readonly returned: R extends AnySchema ? SchemaInput<R> : void;
  readonly result: R extends AnySchema ? SchemaOutput<R> : void;
}

/** Options of one send. */
export interface SendOptions {
  /** Not begun before this long from now; becomes an absolute time at the call. */
  readonly countdown?: Duration;
  /** Not begun before this instant. */
  readonly eta?: Date;
  /** Not begun after this: a length from now, or an instant. */
  readonly expires?: Duration | Date;
  /** Aborted after this, follow-ups too: a length from now, or an instant. */
  readonly deadline?: Duration | Date;
  /** Your own id. Sending the same id again with the same input is the same task. */
  readonly id?: string;
  readonly queue?: string;
  /** 0 to 9, higher first. */
  readonly priority?: number;
  readonly headers?: Readonly<Record<string, string>>;
  /** False: do not keep the result. */
  readonly keepResult?: boolean;
  /** While a task with this key is pending, and for a day, a second send gives the first one's handle. */
  readonly idempotencyKey?: string;
  /** Tasks with the same key are published in the order of their commits. Not together with `countdown` or `eta`. */
  readonly orderingKey?: string;
  /** Sent when this task is done. A task alone takes the result as its input; a call has its own. */
  readonly link?: Task | Call | readonly (Task | Call)[];
}

export const SEND_OPTIONS: readonly (keyof SendOptions)[] = [
  'countdown',
  'eta',
  'expires',
  'deadline',
  'id',
  'queue',
  'priority',
  'headers',
  'keepResult',
  'idempotencyKey',
  'orderingKey',
  'link',
];

/** Input and options of a send; a task without input needs neither. */
export type SendRest<S extends TaskShape> = undefined extends S['input']
  ? [input?: S['input'], options?: SendOptions]
  : [input: S['input'], options?: SendOptions];

/** A contract: data that every side may know. Code that runs lives in a handler. */
export interface Task<S extends TaskShape = TaskShape> {
  readonly [TASK]: true;
  readonly name: string;
  readonly contract: Contract;
  /** Input and options made up for later: `sendMany` takes a list of these. */
  with(...rest: SendRest<S>): Call<S['result']>;
  /** Carries the four types; there is no value behind it. */
  readonly '~shape'?: S;
}

/** A task with its input, not yet sent. */
export interface Call<Result = unknown> {
  readonly task: Task;
  readonly input: unknown;
  readonly options: SendOptions;
  readonly '~result'?: Result;
}

export type InputOf<T> = T extends Task<infer S> ? S['input'] : never;
export type ParsedOf<T> = T extends Task<infer S> ? S['parsed'] : never;
export type ReturnedOf<T> = T extends Task<infer S> ? S['returned'] : never;
export type ResultOf<T> =
  T extends Task<infer S> ? S['result'] : T extends Call<infer R> ? R : never;

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
>(name: string, options: TaskOptions<I, R, A, K> = {}): Task<ShapeOf<I, R, A, K>> {
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
  };
  return made as Task<ShapeOf<I, R, A, K>>;
}

export function isTask(value: unknown): value is Task {
  return typeof value === 'object' && value !== null && TASK in value;
}
