import type { EventListeners } from '../telemetry/events.ts';
import { isContextKey, MAX_CONTEXT_KEYS, type ContextOption } from '../task/context-headers.ts';
import type { Redactor } from '../task/redact.ts';
import { LEVELS, type Logger, type LogLevel } from '../telemetry/logger.ts';
import type { Env } from './from-env.ts';
import { outlastError } from '../errors/error.ts';
import { defaultsOf, envIn, rowOf } from '../options/option.ts';
import { TOP_LEVEL_TABLE } from '../options/top-level-table.ts';
import { readValue } from './resolve-section.ts';
import { asRecord, rangeError, refuseUnknown, SECTION_NAMES, shown } from './options.ts';

export const TOP_LEVEL_OPTIONS: readonly string[] = [
  ...Object.keys(TOP_LEVEL_TABLE),
  ...SECTION_NAMES,
];

/** The options of no stage, checked and complete. */
export interface TopLevel {
  readonly tasks: readonly string[];
  readonly strict: boolean;
  readonly excludeTasks: readonly string[];
  readonly maxPayloadBytes: number;
  readonly maxMessageBytes: number;
  readonly redact: Redactor | null;
  readonly context: ContextOption | null;
  readonly on: EventListeners;
  readonly log: Logger | null;
  /** What our own log writes at least; null: nothing was said. */
  readonly logLevel: LogLevel | null;
}

type Given = Readonly<Record<string, unknown>>;

const DEFAULTS = defaultsOf(TOP_LEVEL_TABLE);

/** Takes a config whose `undefined` members were dropped. */
export function readTopLevel(config: Given, env: Env = {}): TopLevel {
  const all: Given = { ...DEFAULTS, on: {}, ...config };
  return {
    tasks: readTexts(all['tasks'], 'tasks'),
    strict: readRow(all, 'strict') as boolean,
    excludeTasks: readTexts(all['excludeTasks'], 'excludeTasks'),
    maxPayloadBytes: readRow(all, 'maxPayloadBytes') as number,
    maxMessageBytes: readMessageBytes(all),
    redact: 'redact' in all ? readRedactor(all['redact']) : null,
    context: 'context' in all ? readContext(all['context']) : null,
    on: readListeners(all['on']),
    ...readLog(all['log'], env),
  };
}

function readTexts(value: unknown, key: 'tasks' | 'excludeTasks'): readonly string[] {
  const isText = (item: unknown): item is string => typeof item === 'string' && item !== '';
  if (Array.isArray(value) && value.every(isText)) return Object.freeze([...value]);
  throw rangeError(key, `is ${shown(value)}`, "Write an array of texts: ['…', '…'].");
}

/** An option that its kind describes completely. */
const readRow = (all: Given, key: string): unknown =>
  readValue(rowOf(TOP_LEVEL_TABLE, key, 'integer', 'boolean'), all[key], key);

/** The receive limit must not be below the send limit: a task of our own would be cut, and could not be brought back. */
function readMessageBytes(all: Given): number {
  const payload = readRow(all, 'maxPayloadBytes') as number;
  const message = readRow(all, 'maxMessageBytes') as number;
  if (message >= payload) return message;
  throw outlastError('ERR_OPTIONS_CONFLICT', {
    message: `maxMessageBytes (${message}) is below maxPayloadBytes (${payload})`,
    hint: 'Raise maxMessageBytes, or lower maxPayloadBytes: workers must take what is sent to them.',
    fields: { options: ['maxMessageBytes', 'maxPayloadBytes'] },
  });
}

function readRedactor(value: unknown): Redactor {
  if (typeof value === 'function') return value as Redactor;
  throw rangeError(
    'redact',
    `is ${shown(value)}`,
    'Use a function: ({ args, kwargs }) => ({ args, kwargs }).',
  );
}

function readContext(value: unknown): ContextOption {
  if (typeof value === 'function') return value as ContextOption;
  const isName = (item: unknown): boolean => typeof item === 'string' && isContextKey(item);
  if (Array.isArray(value) && value.length <= MAX_CONTEXT_KEYS && value.every(isName))
    return Object.freeze([...(value as readonly string[])]);
  throw rangeError(
    'context',
    `is ${shown(value)}`,
    `Write up to ${MAX_CONTEXT_KEYS} names, of letters, digits, '_', '-' and '.': ['requestId']; or a function: () => ({ … }).`,
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

const LEVEL_ENV = envIn(TOP_LEVEL_TABLE, 'log');

/** A logger of the user has its own level. */
function readLog(value: unknown, env: Env): Pick<TopLevel, 'log' | 'logLevel'> {
  const given = value === undefined ? {} : asRecord(value, 'log');
  const ofEnv = env[LEVEL_ENV] || null;
  const isLogger = LOG_METHODS.some(method => method in given);
  if (isLogger) return { log: readLogger(given), logLevel: null };
  refuseUnknown(Object.keys(given), ['level'], key => `log.${key}`);
  const level = ofEnv ?? given['level'] ?? null;
  const option = ofEnv === null ? 'log.level' : LEVEL_ENV;
  return { log: null, logLevel: level === null ? null : readLevel(level, option) };
}

function readLevel(value: unknown, option: string): LogLevel {
  const level = LEVELS.find(known => known === value);
  if (level !== undefined) return level;
  throw rangeError(option, `is ${shown(value)}`, `Use one of ${LEVELS.join(', ')}.`);
}

function readLogger(methods: Given): Logger {
  for (const method of LOG_METHODS) {
    if (typeof methods[method] === 'function') continue;
    throw rangeError('log', `has no ${method}()`, `Give a logger with ${LOG_METHODS.join(', ')}.`);
  }
  return methods as unknown as Logger;
}
