import { asRecord, dropUndefined, rangeError, refuseUnknown, shown } from './options.ts';

/** What a user writes about metrics. */
export interface MetricsOptions {
  /** Names of tasks that have series of their own; all others are counted as `other`. @default the first 200 */
  readonly tasks?: readonly string[] | undefined;
  /** An agent that takes DogStatsD over UDP: `127.0.0.1:8125`. @default none */
  readonly dogstatsd?: string | undefined;
  /** Feed the meter of `@opentelemetry/api`. @default false */
  readonly opentelemetry?: boolean | undefined;
  /** Who may read `/metrics` on the health port. @default 'machine' */
  readonly readableFrom?: 'machine' | 'anywhere' | undefined;
}

export interface ResolvedMetrics {
  readonly tasks: readonly string[] | null;
  readonly dogstatsd: { readonly host: string; readonly port: number } | null;
  readonly opentelemetry: boolean;
  readonly isReadableFromAnywhere: boolean;
}

const KEYS: readonly (keyof MetricsOptions)[] = [
  'tasks',
  'dogstatsd',
  'opentelemetry',
  'readableFrom',
];

/** Checks the section of a configuration. */
export function readMetrics(value: unknown): ResolvedMetrics {
  const given = dropUndefined(asRecord(value ?? {}, 'metrics'));
  refuseUnknown(Object.keys(given), KEYS, key => `metrics.${key}`);
  const { tasks = null, dogstatsd, opentelemetry = false, readableFrom = 'machine' } = given;
  const isText = (item: unknown): boolean => typeof item === 'string';
  if (tasks !== null && !(Array.isArray(tasks) && tasks.every(isText)))
    throw rangeError('metrics.tasks', `is ${shown(tasks)}`, "Write names: ['shop.pay'].");
  if (typeof opentelemetry !== 'boolean')
    throw rangeError('metrics.opentelemetry', `is ${shown(opentelemetry)}`, 'Use true or false.');
  if (readableFrom !== 'machine' && readableFrom !== 'anywhere')
    throw rangeError(
      'metrics.readableFrom',
      `is ${shown(readableFrom)}`,
      "Use 'machine' or 'anywhere'.",
    );
  return Object.freeze({
    tasks: tasks as readonly string[] | null,
    dogstatsd: readAgent(dogstatsd),
    opentelemetry,
    isReadableFromAnywhere: readableFrom === 'anywhere',
  });
}

const AGENT = /^([\w.-]{1,253}):(\d{1,5})$/;

function readAgent(value: unknown): ResolvedMetrics['dogstatsd'] {
  if (value === undefined) return null;
  const [, host, digits] = (typeof value === 'string' ? AGENT.exec(value) : null) ?? [];
  const port = Number(digits);
  if (host !== undefined && port > 0 && port < 65_536) return { host, port };
  throw rangeError('metrics.dogstatsd', `is ${shown(value)}`, "Write '127.0.0.1:8125'.");
}
