import type { AdmissionRuleOptions } from './admission-rule.ts';
import { resolveContract, type Contract } from './contract.ts';
import type { Duration } from './duration.ts';
import { safeName } from './names.ts';
import type { AnySchema, Following, JsonOnly, ShapeOf, TaskShape } from './shape.ts';

export type { TaskShape };

const TASK: unique symbol = Symbol.for('outlast.task') as never;

type Maybe<S> = S | undefined;

export interface TaskOptions<I, R, A, K, P = readonly string[]> {
  /** What the task takes: any Standard Schema. An object travels as Celery's kwargs, anything else as the one argument. */
  readonly input?: I & JsonOnly<I>;
  /** What the handler returns. Left out, no value is kept and `result()` gives nothing. */
  readonly result?: R & JsonOnly<R>;
  /** Positional and keyword arguments as a Python task takes them, instead of `input`. */
  readonly args?: A & JsonOnly<A>;
  readonly kwargs?: K & JsonOnly<K>;
  /** Names for incoming positional arguments, in their order. */
  readonly params?: P;
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
  /**
   * Of tasks with the same key one runs; the others wait for it, spend no attempt, and end with its result, which is kept
   * for `ttl`. `true`: the key is made of name and input. The same key with another input is `ERR_IDEMPOTENCY_MISMATCH`.
   * `ttl` is `'24h'` unless said.
   */
  readonly idempotent?:
    | boolean
    | {
        readonly key?: (input: ShapeOf<I, R, A, K>['input']) => string;
        readonly ttl?: Duration;
      };
  /**
   * How much of this task may come in, and how many may run at once: for each `key` of the input, or for all together
   * without one. Over the rate `push` and `admit` throw `ERR_ADMISSION_REJECTED`; with `onReject: 'defer'` a push is
   * written to the outbox instead, and goes on when there is room. Sent tasks wait for room in any case.
   */
  readonly admission?: AdmissionRuleOptions & {
    readonly key?: (input: ShapeOf<I, R, A, K>['input']) => string;
    /** @default 'throw' */
    readonly onReject?: 'throw' | 'defer';
  };
  /**
   * Until when the outbox keeps the task: until the broker has confirmed it, or with `'end-to-end'` until it is over. A
   * broker or ledger that loses all it has then loses no task: it is published again after `relay.receiptTimeout`. With
   * `ordering` the next of a key waits until the one before is over; a dead one parks its key unless `whenDead` says
   * otherwise.
   * @default 'broker'
   */
  readonly durability?: 'broker' | 'end-to-end';
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
  /** Whom it is for: `admission` in the configuration may limit tenants. What follows the task is for the same. */
  readonly tenant?: string;
  /** What `outlast.admit` gave for this task. Used once. */
  readonly permit?: Permit;
  /** Sent when this task is done. A task alone takes the result as its input; a call has its own. */
  readonly link?: Step | readonly Step[];
  /** Sent when this task is dead. A task alone takes the id of the dead one as its input; a call has its own. */
  readonly linkError?: Step | readonly Step[];
  /** What only Celery's messages have. */
  readonly celery?: CeleryOptions;
}

/** Room for one task, asked for before the transaction that sends it; kept for 30 s. */
export interface Permit {
  /** The name of the task. */
  readonly task: string;
  /** Gives the room back, if it was not used and nobody has come since; otherwise time does. */
  cancel(): Promise<void>;
}

/** Fields of a Celery message that mean something to brokers and Python workers only. */
export interface CeleryOptions {
  readonly exchange?: string;
  readonly routingKey?: string;
  /** Queue for the answer of Celery's `rpc` result backend. */
  readonly replyTo?: string;
  readonly correlationId?: string;
  /** Another name for logs and monitors. */
  readonly shadow?: string;
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
  'tenant',
  'permit',
  'link',
  'linkError',
  'celery',
];

/** Input and options of a send; a task without input needs neither. */
export type SendRest<S extends TaskShape> = undefined extends S['input']
  ? [input?: S['input'], options?: SendOptions]
  : [input: S['input'], options?: SendOptions];

/** What `.after` takes: nothing where nothing is left to be given. */
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
  /** Input and options made up for later: `sendMany` takes a list of these. In a chain it takes nothing from the step before. */
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

/** What may follow in a chain: also tasks beside each other, whose results the next step takes as a list. */
export type ChainStep = Step | GroupCall | GroupStep;

/** Tasks one after the other; made by `chain`. */
export interface ChainCall<Result = unknown, Returned = unknown> {
  readonly flow: 'chain';
  readonly first: TaskCall;
  readonly rest: readonly ChainStep[];
  readonly '~result'?: Result;
  readonly '~returned'?: Returned;
}

/** Tasks beside each other; made by `group`. */
export interface GroupCall<Result = unknown, Returned = unknown> {
  readonly flow: 'group';
  readonly members: readonly Member[];
  readonly '~result'?: Result;
  readonly '~returned'?: Returned;
}

/** Tasks beside each other of which some take the result of the step before: only in a chain. Made by `group`. */
export interface GroupStep<M = unknown, Result = unknown, Returned = unknown> {
  readonly flow: 'group';
  readonly members: readonly (Member | Step)[];
  readonly '~member'?: M;
  readonly '~result'?: Result;
  readonly '~returned'?: Returned;
}

/** Tasks beside each other, and one that takes all their results; made by `chord`, and by a `chain` that begins so. */
export interface ChordCall<Result = unknown> {
  readonly flow: 'chord';
  readonly header: readonly Member[];
  readonly body: Step;
  /** What follows the body; missing: nothing. */
  readonly rest?: readonly ChainStep[];
  readonly '~result'?: Result;
}

/** What can stand in a group or in the header of a chord. */
export type Member<Result = unknown, Returned = unknown> =
  | TaskCall<Result, Returned>
  | ChainCall<Result, Returned>;

/** What can be sent: a task with its input, or a workflow. */
export type Call<Result = unknown> =
  | TaskCall<Result>
  | ChainCall<Result>
  | GroupCall<Result>
  | ChordCall<Result>;

export type InputOf<T> = T extends Task<infer S> ? S['input'] : never;
export type ParsedOf<T> = T extends Task<infer S> ? S['parsed'] : never;
export type ReturnedOf<T> =
  T extends Task<infer S>
    ? S['returned']
    : T extends { readonly '~returned'?: infer R }
      ? R
      : never;
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
