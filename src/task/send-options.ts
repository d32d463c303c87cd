import type { Call, Task } from './define-task.ts';
import type { Duration } from './duration.ts';
import type { CeleryOptions } from './envelope.ts';

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
  readonly tenant?: string;
  readonly headers?: Readonly<Record<string, string>>;
  /** False: do not keep the result. */
  readonly keepResult?: boolean;
  /** While a task with this key is pending, and for a day, a second send gives the first one's handle. */
  readonly idempotencyKey?: string;
  /** Sent when this task is done. A task alone takes the result as its input; a call has its own. */
  readonly link?: Task | Call | readonly (Task | Call)[];
  /** Passed on to Celery as they are. */
  readonly celery?: CeleryOptions;
}

export const SEND_OPTIONS: readonly (keyof SendOptions)[] = [
  'countdown', 'eta', 'expires', 'deadline', 'id', 'queue', 'priority', 'tenant', 'headers', 'keepResult', 'idempotencyKey', 'link', 'celery',
];
