import { CONTEXT_HEADER } from '../task/context-headers.ts';

/** Our own headers, beside those of options that are sent unchanged. A plain Celery worker ignores them. */
export const OWN_HEADERS = {
  schema: 'outlast-schema',
  digest: 'outlast-digest',
  /** The task's own limits, as JSON text. */
  admission: 'outlast-admission',
  /** Workers that could not run it, as JSON text. */
  refused: 'outlast-refused',
  /** True: the arguments shown are not the real ones. */
  redacted: 'outlast-redacted',
  deadline: 'deadline',
} as const;

/**
 * Names with a meaning at the top level: in Celery's protocol, in the request a Python worker builds from the headers
 * (where they would overwrite what the task needs), in RabbitMQ, or in ours. A user's header with such a name is sent in
 * the nested table only.
 */
const RESERVED: ReadonlySet<string> = new Set(
  `
  lang task id shadow eta expires group group_index retries timelimit root_id parent_id
  argsrepr kwargsrepr origin ignore_result compression replaced_task_nesting stamped_headers
  stamps headers args kwargs callbacks errbacks chain chord children taskset utc properties
  reply_to correlation_id hostname delivery_info called_directly is_eager loglevel logfile
  _children _protected CC BCC
  x-death x-delivery-count x-acquired-count x-first-death-exchange x-first-death-queue
  x-first-death-reason x-last-death-exchange x-last-death-queue x-last-death-reason
  `
    .trim()
    .split(/\s+/),
);

export function isReserved(name: string): boolean {
  if (name === CONTEXT_HEADER) return false;
  return RESERVED.has(name) || name === OWN_HEADERS.deadline || name.startsWith('outlast-');
}

/** Headers about one message: a delay of RabbitMQ's plug-in, or a check-in of Sentry, would happen again with what follows. */
const OF_ONE_MESSAGE =
  /^(?:x-(?:delay|opt-.*|stream-.*|deduplication-header|match)|sentry-(?:monitor-.*|task-.*))$/;

/** Whether what follows a task has this header of it too. */
export const isHandedOn = (name: string): boolean =>
  !isReserved(name) && !OF_ONE_MESSAGE.test(name) && name !== '__proto__';
