/** Where Celery's tools and workers meet on a broker, by the names that kombu gives them. */

/** Requests to workers: everybody hears every one. */
export const CONTROL_EXCHANGE = 'celery.pidbox';
/** Answers, each to the one who asked. */
export const REPLY_EXCHANGE = 'reply.celery.pidbox';
/** What workers tell about themselves and their tasks. */
export const EVENT_EXCHANGE = 'celeryev';
