/** The shape of pino's logger, so that a pino can take its place. */
export interface Logger {
  debug(fields: object, message: string): void;
  info(fields: object, message: string): void;
  warn(fields: object, message: string): void;
  error(fields: object, message: string): void;
  child(fields: object): Logger;
}

export const silentLogger: Logger = {
  debug: () => undefined,
  info: () => undefined,
  warn: () => undefined,
  error: () => undefined,
  child: () => silentLogger,
};

const LEVELS = ['debug', 'info', 'warn', 'error'] as const;
export type LogLevel = (typeof LEVELS)[number];

export interface LogOptions {
  readonly level: LogLevel;
  /** JSON lines for machines, or short lines for people. */
  readonly json: boolean;
  readonly write: (line: string) => void;
  readonly now: () => number;
}

/** Errors have no enumerable fields of their own, so JSON would drop what matters most. */
function plain(_key: string, value: unknown): unknown {
  if (value instanceof Error) {
    const { name, message, stack, cause } = value;
    // What a database tells about a failed row holds the row.
    const { detail: _detail, where: _where, ...fields } = value as Error & Record<string, unknown>;
    return { ...fields, name, message, stack, cause };
  }
  return typeof value === 'bigint' ? value.toString() : value;
}

/** Control characters in a task's name or error must not reach a terminal. */
function visible(text: string): string {
  // oxlint-disable-next-line no-control-regex -- control characters are what is looked for
  return text.replaceAll(/[\u0000-\u001f\u007f-\u009f]/g, ' ');
}

/** For people an error is its message and code; the whole of it is in the JSON lines. */
function brief(value: unknown): string {
  if (typeof value === 'string') return value;
  if (!(value instanceof Error)) return JSON.stringify(value, plain);
  const { code } = value as { readonly code?: unknown };
  return JSON.stringify(typeof code === 'string' ? `${value.message} (${code})` : value.message);
}

export function createLogger(options: LogOptions, bound: object = {}): Logger {
  const threshold = LEVELS.indexOf(options.level);
  const at =
    (level: LogLevel) =>
    (fields: object, message: string): void => {
      if (LEVELS.indexOf(level) < threshold) return;
      const time = new Date(options.now()).toISOString();
      const all = { ...bound, ...fields };
      if (options.json)
        return options.write(`${JSON.stringify({ time, level, message, ...all }, plain)}\n`);
      const details = Object.entries(all).map(([key, value]) => `${key}=${brief(value)}`);
      options.write(
        `${visible(`${time.slice(11, 23)} ${level.padEnd(5)} ${message} ${details.join(' ')}`.trimEnd())}\n`,
      );
    };
  return {
    debug: at('debug'),
    info: at('info'),
    warn: at('warn'),
    error: at('error'),
    child: fields => createLogger(options, { ...bound, ...fields }),
  };
}
