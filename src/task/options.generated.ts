// Written by scripts/write-options.mjs from the tables in src/options; edit those and run npm run build.
import type { Duration } from './duration.ts';
import type { Permit } from './permit.ts';
import type { JsonOnly, ShapeOf } from './shape.ts';

/** At most `limit` in any length of time `per`, and no more than `burst` of them at once. */
export interface RateOptions {
  /** How many may come in within `per`. */
  readonly limit: number;
  /** The length of the window. */
  readonly per: Duration;
  /** How many of them may come at once; no more than `limit`. @default a tenth of the limit, rounded up */
  readonly burst?: number | undefined;
}

/** What may be limited. */
export interface AdmissionRuleOptions {
  /** How many may come in. */
  readonly rate?: RateOptions | undefined;
  /** How many may run at the same time. */
  readonly concurrency?: number | undefined;
}

/** What a contract says about its task. */
export interface TaskOptions<I, R, A, K, P = readonly string[]> {
  /**
   * What the task takes: any Standard Schema. An object travels as Celery's kwargs, anything else as the one argument.
   */
  readonly input?: I & JsonOnly<I>;
  /** What the handler returns. Left out, no value is kept and `result()` gives nothing. */
  readonly result?: R & JsonOnly<R>;
  /** Positional arguments as a Python task takes them, instead of `input`. */
  readonly args?: A & JsonOnly<A>;
  /** Keyword arguments as a Python task takes them, instead of `input`. */
  readonly kwargs?: K & JsonOnly<K>;
  /** Names for incoming positional arguments, in their order. */
  readonly params?: P;
  /** Version of the input's shape. @default 1 */
  readonly version?: number;
  /** Where it waits for a worker. @default 'default' */
  readonly queue?: string;
  /** 0 to 9, higher first; at a Redis broker lower first, as with Celery. @default 0 */
  readonly priority?: number;
  /** An attempt is aborted after this. */
  readonly timeout?: Duration;
  /** `ctx.softSignal` fires after this. */
  readonly softTimeout?: Duration;
  /** Not begun later than this after it was sent. */
  readonly expires?: Duration;
  /**
   * Tasks with the same key are published in the order of their commits, one at a time. When one of them becomes a dead
   * letter of the relay, the tasks behind it wait until an operator retries or purges it; with `'go-on'` they do not
   * wait.
   */
  readonly ordering?: {
    /** What tasks must have in common to be kept in order. */
    readonly key: (input: ShapeOf<I, R, A, K>['input']) => string;
    /** Whether tasks behind a dead one wait for it or go on. @default 'park' */
    readonly whenDead?: 'park' | 'go-on';
  };
  /**
   * Of tasks with the same key one runs; the others wait for it, spend no attempt, and end with its result, which is
   * kept for `ttl`. `true`: the key is made of name and input. The same key with another input is
   * `ERR_IDEMPOTENCY_MISMATCH`.
   */
  readonly idempotent?: boolean | {
    /** What calls must have in common to be one. @default name and input */
    readonly key?: (input: ShapeOf<I, R, A, K>['input']) => string;
    /** How long the result answers for others. @default '24h' */
    readonly ttl?: Duration;
  };
  /**
   * How much of this task may come in, and how many may run at once: for each `key` of the input, or for all together
   * without one. Over the rate `push` and `admit` throw `ERR_ADMISSION_REJECTED`; with `onReject: 'defer'` a push is
   * written to the outbox instead, and is published when the rate allows it. Sent tasks always wait for that.
   */
  readonly admission?: AdmissionRuleOptions & {
    /** What is limited by itself. @default all of this task are one */
    readonly key?: (input: ShapeOf<I, R, A, K>['input']) => string;
    /** What `push` does over the rate. @default 'throw' */
    readonly onReject?: 'throw' | 'defer';
    /**
     * What `push` does while the store of the limits cannot be asked: it fails, or the task comes in unchecked.
     * @default 'throw'
     */
    readonly onOutage?: 'throw' | 'admit';
  };
  /**
   * What the task promises: `success`, `latency`, or both. The ledger counts what keeps it and what does not, and
   * `outlast slo` tells how fast the rest of the budget is used up.
   */
  readonly slo?: {
    /** The share of tasks that end done and not dead or expired: more than 0, less than 1. */
    readonly success?: number;
    /** How fast it is to be done. */
    readonly latency?: {
      /** From its creation, or its `eta`, to its end, by the clock of the ledger. */
      readonly within: Duration;
      /** The share of done tasks that take no longer: more than 0, less than 1. */
      readonly target: number;
    };
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

/** Fields of a Celery message that mean something to brokers and Python workers only. */
export interface CeleryOptions {
  /** The exchange, instead of that of the queue. */
  readonly exchange?: string;
  /** The routing key, instead of the name of the queue. */
  readonly routingKey?: string;
  /** Queue for the answer of Celery's `rpc` result backend. */
  readonly replyTo?: string;
  /** By which the answer is recognised. @default the task's id */
  readonly correlationId?: string;
  /** Another name for logs and monitors. */
  readonly shadow?: string;
}

/** Options of one send; `Step` is what may follow it. */
export interface SendOptionsOf<Step> {
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
  /** The queue, instead of that of the task. */
  readonly queue?: string;
  /** 0 to 9, higher first; at a Redis broker lower first, as with Celery. */
  readonly priority?: number;
  /** Texts that travel with the task: `ctx.headers` has them. */
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

/** Options of a send that travel as they are, in a header and in an envelope. */
export interface TravellingOptions {
  /** While a task with this key is pending, and for a day, a second send gives the first one's handle. */
  readonly idempotencyKey?: string;
  /** Whom it is for: `admission` in the configuration may limit tenants. What follows the task is for the same. */
  readonly tenant?: string;
}

/** Options of a send that its follow-ups have too. */
export interface InheritedOptions {
  /** Whom it is for: `admission` in the configuration may limit tenants. What follows the task is for the same. */
  readonly tenant?: string;
}
