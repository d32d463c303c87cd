import type { OptionTable } from './option.ts';

/** Far beyond what belongs in a task, and well under what PostgreSQL takes as one value. */
const MAX_BYTES = 268_435_456;

/** What a user may say that belongs to no stage. */
export const TOP_LEVEL_TABLE: OptionTable = Object.freeze({
  database: {
    kind: 'text',
    default: 'pglite:./.outlast',
    env: 'OUTLAST_DATABASE_URL',
    sentence:
      'Where tasks live: `pglite:./folder`, `pglite:memory://`, `postgres://…` or `postgresql://…`; with `broker` and `ledger` elsewhere also `mysql://…` or `mariadb://…`.',
  },
  schema: {
    kind: 'text',
    env: 'OUTLAST_SCHEMA',
    defaultNote: 'none',
    sentence:
      "The PostgreSQL schema of Outlast's tables, `outlast` for example, so that tools that compare your own schema with the database leave them alone. None: where `search_path` finds them.",
    more: 'See [migrations beside your own](../guides/migrations.md).',
  },
  broker: {
    kind: 'url',
    type: 'string | BrokerOptions',
    env: 'OUTLAST_BROKER_URL',
    defaultNote: 'none',
    sentence:
      'Where the relay publishes and workers consume: `amqp://…`, `amqps://…`, `redis://…`, `rediss://…`, or options with a `url`. None: the database.',
  },
  ledger: {
    kind: 'url',
    env: 'OUTLAST_LEDGER_URL',
    defaultNote: 'none',
    sentence:
      'Where it is kept who runs what, and results: `redis://…`. None: the broker if it is Redis, else the database.',
  },
  celery: {
    kind: 'record',
    type: 'CeleryOptions',
    default: {},
    sentence:
      "What Celery applications at the same broker know and we do not: `{ routes: { 'reports.*': 'reports' }, defaultQueue: 'celery' }`.",
    more: 'See [below](#celery).',
  },
  outboxes: {
    kind: 'record',
    type: 'Readonly<Record<string, { readonly database: string; readonly schema?: string | undefined }>>',
    default: {},
    sentence:
      'Outboxes in other databases, PostgreSQL, MySQL or MariaDB, by name: `{ crm: { database: … } }`, with a `schema` of its own if it has one; `relay --outbox crm` publishes them into `database`.',
  },
  tasks: {
    kind: 'list',
    type: 'readonly string[]',
    default: [],
    sentence:
      'Modules whose exported handlers a worker runs: paths relative to the config file, with `*` and `**`.',
  },
  strict: {
    kind: 'boolean',
    default: true,
    sentence: 'Refuse a `send` outside a transaction; false: warn. A pool is refused always.',
  },
  excludeTasks: {
    kind: 'list',
    type: 'readonly string[]',
    default: [],
    sentence:
      'Task names, with `*`, whose `send` goes straight to the broker and so escapes a rollback.',
  },
  maxPayloadBytes: {
    kind: 'integer',
    default: 1_048_576,
    min: 1,
    max: MAX_BYTES,
    sentence: 'Largest body of a task, in bytes.',
  },
  maxMessageBytes: {
    kind: 'integer',
    default: 16_777_216,
    min: 1,
    max: MAX_BYTES,
    sentence:
      'Largest message that a worker takes from the broker, as it comes and inflated, in bytes. Of a larger one a dead letter keeps size, digest and the first 4096 bytes. Never below `maxPayloadBytes`.',
  },
  redact: {
    kind: 'function',
    type: 'Redactor',
    defaultNote: 'none',
    sentence:
      'Makes the copy of arguments that people see: `({ name, args, kwargs }) => ({ args, kwargs })`. It gets a copy of its own and must return at once; if it throws, nothing is shown. What is sent and run stays as it is.',
  },
  context: {
    kind: 'value',
    type: 'ContextOption',
    defaultNote: 'none',
    sentence:
      "What a task takes along from the place where it is sent: names of what `withContext` has bound there (`['requestId', 'user']`), or a function that returns texts by name. It travels in the task's headers; up to 16 texts, cut at 256 characters.",
    more: 'See [context](../guides/context.md).',
  },
  signingKeys: {
    kind: 'list',
    type: 'readonly string[]',
    default: [],
    env: 'OUTLAST_SIGNING_KEYS',
    sentence:
      'Secrets as `id:hex` or `id:base64`, with commas between them in the variable: the first one signs what is sent, all of them verify. With one, workers run signed tasks only. Every process that sends, works or recovers needs them.',
  },
  unsignedQueues: {
    kind: 'record',
    type: 'Readonly<Record<string, readonly string[]>>',
    default: {},
    sentence:
      "Queues whose tasks need no signature, because others send to them, with the tasks that may come there, by name or by a prefix before `*`: `{ 'from-python': ['report.*'] }`. Follow-ups of unsigned tasks are not signed.",
  },
  signatureMaxAge: {
    kind: 'duration',
    default: '12h',
    min: '1m',
    max: '23h',
    sentence:
      'How long after its signing a task is accepted from a broker, up to 23 hours; ended tasks are remembered for longer than that, so that a copy does not run again. Relays and workers sign tasks again that have waited long.',
  },
  signingAudience: {
    kind: 'text',
    default: '',
    sentence:
      'What signatures are for, for example `production`: those of another audience do not count here.',
  },
  retention: {
    kind: 'record',
    type: 'RetentionOptions',
    default: {},
    sentence:
      "What a resurrector deletes by itself: `{ deadLetters: { olderThanDead: '30d', olderThanCreated: '90d', taskName: 'shop.*' } }`; all that is given must hold, and one age must be.",
  },
  admission: {
    kind: 'record',
    type: 'AdmissionOptions',
    default: {},
    sentence:
      "How much may come in, and how many may run at once: `{ 'tenant:*': { rate: { limit: 50, per: '1s', burst: 5 } }, 'queue:billing': { concurrency: 200 } }`. Patterns are `tenant:`, `task:` or `queue:` and a name, with `*` and `?`: each name that matches is limited for itself, and of each kind the most specific pattern counts. `'*'` is one limit for all tasks together.",
    more: 'See [admission](../guides/admission.md).',
  },
  metrics: {
    kind: 'record',
    type: 'MetricsOptions',
    default: {},
    sentence:
      "Where figures go: `{ dogstatsd: '127.0.0.1:8125', opentelemetry: true, readableFrom: 'anywhere', tasks: ['shop.pay'] }`. Prometheus reads them from `/metrics` on the health port: clients on this machine, or `readableFrom: 'anywhere'`. `tasks` names those that have series of their own; without it the first 200 have.",
    more: 'See [metrics](metrics.md).',
  },
  traces: {
    kind: 'record',
    type: 'TracesOptions',
    default: {},
    sentence:
      'Traces: `{ opentelemetry: true }` makes spans for the tracer of `@opentelemetry/api`, and sends W3C headers along. `{ sentry: Sentry }` does the same with Sentry.',
    more: 'See [traces](../guides/traces.md).',
  },
  schedule: {
    kind: 'record',
    type: 'Readonly<Record<string, ScheduleOptions>>',
    default: {},
    sentence:
      "Tasks that are sent by the clock, by name: `{ nightly: { call: nightly.with(), cron: '0 3 * * *', timeZone: 'Europe/Berlin' } }`.",
    more: 'See [below](#schedule) and [schedules](../guides/schedules.md).',
  },
  on: {
    kind: 'value',
    type: 'EventListeners',
    defaultNote: 'none',
    sentence: 'Listeners for events, called in the process where the event happens.',
  },
  log: {
    kind: 'value',
    type: 'Logger | LogSettings',
    env: 'OUTLAST_LOG_LEVEL',
    defaultNote: "Outlast's own",
    sentence:
      "Replaces Outlast's own log, which writes to stderr; a pino logger fits. Or `{ level: 'debug' }` for the own one: `debug`, `info`, `warn`, `error` or `silent`, as the variable says. Commands log from `info` on, `createOutlast` from `warn` on.",
  },
});
