import type { EventListeners } from '../telemetry/events.ts';
import type { Redactor } from '../task/redact.ts';
import type { Logger } from '../telemetry/logger.ts';
import { DEFAULT_DATABASE } from './database-url.ts';
import { asRecord, rangeError, SECTION_NAMES, shown } from './options.ts';

/** The defaults of what belongs to no stage. */
export const CONFIG_DEFAULTS: {
  readonly database: string;
  readonly tasks: readonly string[];
  readonly strict: boolean;
  readonly excludeTasks: readonly string[];
  readonly maxPayloadBytes: number;
} = Object.freeze({
  database: DEFAULT_DATABASE,
  tasks: Object.freeze([]),
  strict: true,
  excludeTasks: Object.freeze([]),
  maxPayloadBytes: 1_048_576,
});

/** One row of the reference page for what belongs to no stage. */
export interface TopLevelRow {
  readonly key: string;
  readonly env: string | null;
  readonly default: string;
  readonly sentence: string;
}

export const TOP_LEVEL_TABLE: readonly TopLevelRow[] = Object.freeze([
  {
    key: 'database',
    env: 'OUTLAST_DATABASE_URL',
    default: CONFIG_DEFAULTS.database,
    sentence:
      'Where tasks live: `pglite:./folder`, `postgres://…` or `postgresql://…`; with `broker` and `ledger` elsewhere also `mysql://…` or `mariadb://…`.',
  },
  {
    key: 'broker',
    env: 'OUTLAST_BROKER_URL',
    default: 'none',
    sentence:
      'Where the relay publishes and workers consume: `amqp://…`, `amqps://…`, `redis://…`, `rediss://…`, or options with a `url` (below). None: the database.',
  },
  {
    key: 'ledger',
    env: 'OUTLAST_LEDGER_URL',
    default: 'none',
    sentence:
      'Where it is kept who runs what, and results: `redis://…`. None: the broker if it is Redis, else the database.',
  },
  {
    key: 'outboxes',
    env: null,
    default: '{}',
    sentence:
      'Outboxes in other databases, PostgreSQL, MySQL or MariaDB, by name: `{ crm: { database: … } }`; `relay --outbox crm` publishes them into `database`.',
  },
  {
    key: 'tasks',
    env: null,
    default: '[]',
    sentence:
      'Modules whose exported handlers a worker runs: paths relative to the config file, with `*` and `**`.',
  },
  {
    key: 'strict',
    env: null,
    default: String(CONFIG_DEFAULTS.strict),
    sentence: 'Refuse a `send` outside a transaction; false: warn.',
  },
  {
    key: 'excludeTasks',
    env: null,
    default: '[]',
    sentence:
      'Task names, with `*`, whose `send` goes straight to the broker and so escapes a rollback.',
  },
  {
    key: 'maxPayloadBytes',
    env: null,
    default: String(CONFIG_DEFAULTS.maxPayloadBytes),
    sentence: 'Largest body of a task, in bytes.',
  },
  {
    key: 'redact',
    env: null,
    default: 'none',
    sentence:
      'Makes the copy of arguments that people see: `({ name, args, kwargs }) => ({ args, kwargs })`. What is sent and run stays as it is.',
  },
  {
    key: 'signingKeys',
    env: 'OUTLAST_SIGNING_KEYS',
    default: '[]',
    sentence:
      'Secrets as `id:hex` or `id:base64`, with commas between them in the variable: the first one signs what is sent, all of them verify. With one, workers run signed tasks only.',
  },
  {
    key: 'unsignedQueues',
    env: null,
    default: '[]',
    sentence: 'Queues whose tasks need no signature, because others send to them.',
  },
  {
    key: 'retention',
    env: null,
    default: '{}',
    sentence:
      "What a resurrector deletes by itself: `{ deadLetters: { olderThanDead: '30d', olderThanCreated: '90d', taskName: 'shop.*' } }`; all that is given must hold, and one age must be.",
  },
  {
    key: 'admission',
    env: null,
    default: '{}',
    sentence:
      "How much may come in, and how many may run at once: `{ 'tenant:*': { rate: { limit: 50, per: '1s', burst: 5 } }, 'queue:billing': { concurrency: 200 } }`. Patterns are `tenant:`, `task:` or `queue:` and a name, with `*` and `?`; of each kind the most specific counts. See [admission](../guides/admission.md).",
  },
  {
    key: 'on',
    env: null,
    default: 'none',
    sentence: 'Listeners for events, called in the process where the event happens.',
  },
  {
    key: 'log',
    env: null,
    default: "Outlast's own",
    sentence: "Takes the place of Outlast's own log; a pino fits.",
  },
]);

export const TOP_LEVEL_OPTIONS: readonly string[] = [
  ...TOP_LEVEL_TABLE.map(row => row.key),
  ...SECTION_NAMES,
];

/** What belongs to no stage, checked and complete. */
export interface TopLevel {
  readonly tasks: readonly string[];
  readonly strict: boolean;
  readonly excludeTasks: readonly string[];
  readonly maxPayloadBytes: number;
  readonly redact: Redactor | null;
  readonly on: EventListeners;
  readonly log: Logger | null;
}

type Given = Readonly<Record<string, unknown>>;

/** Takes a config whose `undefined` members were dropped. */
export function readTopLevel(config: Given): TopLevel {
  const all: Given = { ...CONFIG_DEFAULTS, on: {}, ...config };
  return {
    tasks: readTexts(all['tasks'], 'tasks'),
    strict: readStrict(all['strict']),
    excludeTasks: readTexts(all['excludeTasks'], 'excludeTasks'),
    maxPayloadBytes: readBytes(all['maxPayloadBytes']),
    redact: 'redact' in all ? readRedactor(all['redact']) : null,
    on: readListeners(all['on']),
    log: 'log' in all ? readLogger(all['log']) : null,
  };
}

function readTexts(value: unknown, key: 'tasks' | 'excludeTasks'): readonly string[] {
  const isText = (item: unknown): item is string => typeof item === 'string' && item !== '';
  if (Array.isArray(value) && value.every(isText)) return Object.freeze([...value]);
  throw rangeError(key, `is ${shown(value)}`, "Write an array of texts: ['…', '…'].");
}

function readStrict(value: unknown): boolean {
  if (typeof value === 'boolean') return value;
  throw rangeError('strict', `is ${shown(value)}`, 'Use true or false.');
}

/** Far beyond what belongs in a task, and well under what Postgres takes as one value. */
const MAX_BYTES = 268_435_456;

function readBytes(value: unknown): number {
  const isWell = typeof value === 'number' && Number.isInteger(value);
  if (isWell && value >= 1 && value <= MAX_BYTES) return value;
  throw rangeError(
    'maxPayloadBytes',
    `is ${shown(value)}`,
    `Use a whole number from 1 to ${MAX_BYTES}.`,
  );
}

function readRedactor(value: unknown): Redactor {
  if (typeof value === 'function') return value as Redactor;
  throw rangeError(
    'redact',
    `is ${shown(value)}`,
    'Use a function: ({ args, kwargs }) => ({ args, kwargs }).',
  );
}

function readListeners(value: unknown): EventListeners {
  const listeners = Object.entries(asRecord(value, 'on'));
  const given = listeners.filter(([, listener]) => listener !== undefined);
  for (const [name, listener] of given) {
    if (typeof listener === 'function') continue;
    throw rangeError(`on['${name}']`, `is ${shown(listener)}`, 'Use a function: event => { … }.');
  }
  return Object.freeze(Object.fromEntries(given));
}

const LOG_METHODS = ['debug', 'info', 'warn', 'error', 'child'] as const;

function readLogger(value: unknown): Logger {
  const methods = asRecord(value, 'log');
  for (const method of LOG_METHODS) {
    if (typeof methods[method] === 'function') continue;
    throw rangeError('log', `has no ${method}()`, `Give a logger with ${LOG_METHODS.join(', ')}.`);
  }
  return value as Logger;
}
