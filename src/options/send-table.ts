import type { OptionRow, OptionTable } from './option.ts';

/** How an option of one send goes on with its task. */
interface Sending {
  /** What stands for the value in the help of `outlast send`; left out: it has no flag. */
  readonly flag?: string;
  /** It travels as it is, in this header of a message and under its own name in the options of an envelope. */
  readonly header?: string;
  /** It has a position of its own in what a signature covers, from before there was a list. */
  readonly hasSignedPosition?: true;
  /** What follows the task has the same. */
  readonly isInherited?: true;
  /** For the outbox: a task that follows another is sent by a worker, and cannot have it. */
  readonly isForOutbox?: true;
}

export type SendRow = OptionRow & Sending;

/** Fields of a Celery message that mean something to brokers and Python workers only. */
export const CELERY_TABLE: OptionTable = Object.freeze({
  exchange: { kind: 'key', sentence: 'The exchange, instead of that of the queue.' },
  routingKey: { kind: 'key', sentence: 'The routing key, instead of the name of the queue.' },
  replyTo: { kind: 'key', sentence: "Queue for the answer of Celery's `rpc` result backend." },
  correlationId: {
    kind: 'key',
    defaultNote: "the task's id",
    sentence: 'By which the answer is recognised.',
  },
  shadow: { kind: 'key', sentence: 'Another name for logs and monitors.' },
});

/** What a user may say about one send. */
export const SEND_TABLE: Readonly<Record<string, SendRow>> = Object.freeze({
  countdown: {
    kind: 'duration',
    flag: 'seconds',
    sentence: 'Not begun before this long from now; becomes an absolute time at the call.',
  },
  eta: { kind: 'instant', flag: 'time', sentence: 'Not begun before this instant.' },
  expires: {
    kind: 'moment',
    flag: 'seconds',
    sentence: 'Not begun after this: a length from now, or an instant.',
  },
  deadline: {
    kind: 'moment',
    isForOutbox: true,
    sentence: 'Aborted after this, follow-ups too: a length from now, or an instant.',
  },
  id: {
    kind: 'name',
    flag: 'id',
    sentence: 'Your own id. Sending the same id again with the same input is the same task.',
  },
  queue: { kind: 'name', flag: 'name', sentence: 'The queue, instead of that of the task.' },
  priority: {
    kind: 'integer',
    min: 0,
    max: 9,
    sentence: '0 to 9, higher first; at a Redis broker lower first, as with Celery.',
  },
  headers: {
    kind: 'record',
    type: 'Readonly<Record<string, string>>',
    sentence: 'Texts that travel with the task: `ctx.headers` has them.',
  },
  keepResult: { kind: 'boolean', sentence: 'False: do not keep the result.' },
  idempotencyKey: {
    kind: 'key',
    header: 'outlast-idempotency-key',
    hasSignedPosition: true,
    isForOutbox: true,
    sentence:
      "While a task with this key is pending, and for a day, a second send gives the first one's handle.",
  },
  orderingKey: {
    kind: 'key',
    isForOutbox: true,
    sentence:
      'Tasks with the same key are published in the order of their commits. Not together with `countdown` or `eta`.',
  },
  tenant: {
    kind: 'key',
    flag: 'name',
    header: 'outlast-tenant',
    hasSignedPosition: true,
    isInherited: true,
    isForOutbox: true,
    sentence:
      'Whom it is for: `admission` in the configuration may limit tenants. What follows the task is for the same.',
  },
  permit: {
    kind: 'value',
    type: 'Permit',
    isForOutbox: true,
    sentence: 'What `outlast.admit` gave for this task. Used once.',
  },
  link: {
    kind: 'value',
    type: 'Step | readonly Step[]',
    sentence:
      'Sent when this task is done. A task alone takes the result as its input; a call has its own.',
  },
  linkError: {
    kind: 'value',
    type: 'Step | readonly Step[]',
    sentence:
      'Sent when this task is dead. A task alone takes the id of the dead one as its input; a call has its own.',
  },
  celery: {
    kind: 'group',
    members: CELERY_TABLE,
    typeName: 'CeleryOptions',
    typeSentence:
      'Fields of a Celery message that mean something to brokers and Python workers only.',
    sentence: "What only Celery's messages have.",
  },
});
