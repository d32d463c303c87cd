/** Where Celery's tools and workers meet on a broker, with kombu's names. */

/** Requests to workers: every worker receives each one. */
export const CONTROL_EXCHANGE = 'celery.pidbox';
/** Answers, each to the caller that asked. */
export const REPLY_EXCHANGE = 'reply.celery.pidbox';
/** Events of workers and their tasks. */
export const EVENT_EXCHANGE = 'celeryev';
