import type { Logger, LineLevel } from '../../telemetry/logger.ts';
import { clonable, packError, unpackError } from '../run/pack-error.ts';
import type { PackedError } from './isolate.ts';

/** One line that a handler in an isolate has logged, on its way to the log of the worker. */
export interface IsolateLogLine {
  readonly level: LineLevel;
  readonly message: string;
  readonly values: Readonly<Record<string, unknown>>;
  /** Errors are separate: a cloned error loses its code. */
  readonly errors: Readonly<Record<string, PackedError>>;
}

/** A logger whose lines are written elsewhere. */
export function isolateLogger(write: (line: IsolateLogLine) => void, bound: object = {}): Logger {
  const at =
    (level: LineLevel) =>
    (fields: object, message: string): void => {
      const entries = Object.entries({ ...bound, ...fields });
      const isError = ([, value]: [string, unknown]): boolean => value instanceof Error;
      const errors = entries.filter(isError).map(([key, value]) => [key, packError(value)]);
      const values = entries.filter(entry => !isError(entry));
      write({
        level,
        message,
        values: Object.fromEntries(values.map(([key, value]) => [key, clonable(value)])),
        errors: Object.fromEntries(errors) as IsolateLogLine['errors'],
      });
    };
  return {
    debug: at('debug'),
    info: at('info'),
    warn: at('warn'),
    error: at('error'),
    child: fields => isolateLogger(write, { ...bound, ...fields }),
  };
}

/** Writes a line of an isolate into the log of its worker. */
export function writeIsolateLine(
  log: Logger,
  { level, message, values, errors }: IsolateLogLine,
): void {
  const unpacked = Object.entries(errors).map(([key, error]) => [key, unpackError(error)]);
  log[level]({ ...values, ...(Object.fromEntries(unpacked) as object) }, message);
}
