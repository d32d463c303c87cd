import { isOutlastError, isUnavailable } from '../errors/error.ts';
import { maskSecrets } from '../errors/mask-secrets.ts';
import { fileURLToPath } from 'node:url';

/** The shape of pino's logger, so that a pino logger can be used instead. */
export interface Logger {
  debug(fields: object, message: string): void;
  info(fields: object, message: string): void;
  warn(fields: object, message: string): void;
  error(fields: object, message: string): void;
  child(fields: object): Logger;
  /** Whether lines of this level are written; pino and winston tell. Left out: they may be. */
  isLevelEnabled?(level: string): boolean;
}

export const silentLogger: Logger = {
  debug: () => undefined,
  info: () => undefined,
  warn: () => undefined,
  error: () => undefined,
  child: () => silentLogger,
  isLevelEnabled: () => false,
};

/** From the most talkative to none at all. */
export const LEVELS = ['debug', 'info', 'warn', 'error', 'silent'] as const;
/** From the most to the least: what is written at this level and above. */
export type LogLevel = (typeof LEVELS)[number];

/** The level of a line. */
export type LineLevel = Exclude<LogLevel, 'silent'>;

/** What a user may say about our own log. */
export interface LogSettings {
  /** @default 'info' for commands, 'warn' for `createOutlast` */
  readonly level?: LogLevel;
}

export interface LogOptions {
  readonly level: LogLevel;
  /** JSON lines for machines, or short lines for people. */
  readonly json: boolean;
  readonly write: (line: string) => void;
  readonly now: () => number;
}

/** Errors have no enumerable fields of their own, so JSON would drop what matters most. Secrets in strings are masked. */
function plain(_key: string, value: unknown): unknown {
  if (typeof value === 'string') return maskSecrets(value);
  if (value instanceof Error) {
    const { name, message, stack, cause } = value;
    // The detail a database reports about a failed row holds the row.
    const { detail: _detail, where: _where, ...fields } = value as Error & Record<string, unknown>;
    return { ...fields, name, message, stack, cause };
  }
  if (typeof value === 'number' && !Number.isInteger(value)) return roundMs(value);
  return typeof value === 'bigint' ? value.toString() : value;
}

/** For people an error is its message and code; the JSON lines hold all of it. */
function brief(value: unknown): string {
  if (typeof value === 'string') return maskSecrets(value);
  if (!(value instanceof Error)) return JSON.stringify(value, plain);
  const { code } = value as { readonly code?: unknown };
  const message = maskSecrets(value.message);
  return JSON.stringify(typeof code === 'string' ? `${message} (${code})` : message);
}

/** Stack frames for people: our own errors carry a hint instead. Indented, so that none of it looks like a log line. */
function framesOf(values: readonly unknown[]): string {
  const error = values.find(value => value instanceof Error);
  if (error === undefined || isUnavailable(error)) return '';
  if (isOutlastError(error) && !(error.cause instanceof Error)) return '';
  const { stack } = isOutlastError(error) ? (error.cause as Error) : error;
  const frames = ownFrames(typeof stack === 'string' ? stack : '');
  return frames.map(frame => `\n    ${printable(maskSecrets(frame))}`).join('');
}

/** The log of a process that was given none: short lines on stderr. */
export function stderrLogger(options: Pick<LogOptions, 'level' | 'json'>, bound?: object): Logger {
  const write = (line: string): void => void process.stderr.write(line);
  return createLogger({ ...options, write, now: Date.now }, bound);
}

export function createLogger(options: LogOptions, bound: object = {}): Logger {
  const threshold = LEVELS.indexOf(options.level);
  const isEnabled = (level: string): boolean => LEVELS.indexOf(level as LineLevel) >= threshold;
  const at =
    (level: LineLevel) =>
    (fields: object, message: string): void => {
      if (!isEnabled(level)) return;
      const time = new Date(options.now()).toISOString();
      const all = { ...bound, ...fields };
      if (options.json) {
        const line = JSON.stringify({ time, level, message, ...all }, plain);
        return options.write(`${printableJson(line)}\n`);
      }
      const details = Object.entries(all).map(([key, value]) => `${key}=${brief(value)}`);
      const line = `${time.slice(11, 23)} ${level.padEnd(5)} ${maskSecrets(message)} ${details.join(' ')}`;
      const frames = level === 'error' || level === 'warn' ? framesOf(Object.values(all)) : '';
      options.write(`${printable(line.trimEnd())}${frames}\n`);
    };
  return {
    debug: at('debug'),
    info: at('info'),
    warn: at('warn'),
    error: at('error'),
    child: fields => createLogger(options, { ...bound, ...fields }),
    isLevelEnabled: isEnabled,
  };
}

const FRAME = /^\s*at .{1,500}$/gm;
const FOREIGN = /[\\/]node_modules[\\/]|\(node:|at (?:async )?node:|<anonymous>/;
/** The folder of this package's own code: its frames show how a handler is called, not what failed. */
const OURS = ownFolder(import.meta.url);
const MOST = 8;

/** A bundle in CommonJS has no URL; there every frame is the user's. */
function ownFolder(base: string | undefined): string {
  return base === undefined ? '\0' : fileURLToPath(new URL('..', base));
}

/** A frame of the user's own files, not of a package or of Node. */
export const isOwnFrame = (frame: string): boolean => !FOREIGN.test(frame) && !frame.includes(OURS);

/** The frames of a stack, those of the user's own files first: that is where to look. Without the message. */
export function ownFrames(stack: string): readonly string[] {
  const frames = (stack.slice(0, 20_000).match(FRAME) ?? []).map(frame => frame.trim());
  const others = frames.filter(frame => !isOwnFrame(frame));
  return [...frames.filter(isOwnFrame), ...others].slice(0, MOST);
}

/**
 * Characters that a terminal or a log viewer obeys instead of showing: control characters of both sets, line separators,
 * and bidirectional marks. Names, errors and payloads may come from any sender.
 */
// oxlint-disable-next-line no-control-regex -- control characters are what is looked for
const OBEYED = /[\u0000-\u001f\u007f-\u009f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff]/g;
const SHORT: Readonly<Record<string, string>> = { '\n': '\\n', '\r': '\\r', '\t': '\\t' };

const escape = (letter: string): string =>
  SHORT[letter] ?? `\\u${letter.charCodeAt(0).toString(16).padStart(4, '0')}`;

/** One line of text in which everything is visible: a line feed in it starts no second line. */
export function printable(text: string): string {
  return text.replaceAll(OBEYED, escape);
}

/** The same for JSON on one line, which keeps its meaning: JSON itself escapes the lower control characters only. */
export function printableJson(json: string): string {
  return json.replaceAll(OBEYED, letter => (letter < ' ' ? ' ' : escape(letter)));
}

/** Milliseconds for people and metrics: thousandths are more than any clock here is good for. */
export const roundMs = (ms: number): number => Math.round(ms * 1_000) / 1_000;
