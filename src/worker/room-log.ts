import type { Logger, LogLevel } from '../telemetry/logger.ts';
import { clonable, packError, unpackError } from './pack-error.ts';
import type { PackedError } from './room.ts';

/** One line that a handler in a room has logged, on its way to the log of the worker. */
export interface RoomLogLine {
  readonly level: LogLevel;
  readonly message: string;
  readonly values: Readonly<Record<string, unknown>>;
  /** Errors apart: what is cloned loses its code. */
  readonly errors: Readonly<Record<string, PackedError>>;
}

/** A logger whose lines are written elsewhere. */
export function roomLogger(write: (line: RoomLogLine) => void, bound: object = {}): Logger {
  const at =
    (level: LogLevel) =>
    (fields: object, message: string): void => {
      const entries = Object.entries({ ...bound, ...fields });
      const isError = ([, value]: [string, unknown]): boolean => value instanceof Error;
      const errors = entries.filter(isError).map(([key, value]) => [key, packError(value)]);
      const values = entries.filter(entry => !isError(entry));
      write({
        level,
        message,
        values: Object.fromEntries(values.map(([key, value]) => [key, clonable(value)])),
        errors: Object.fromEntries(errors) as RoomLogLine['errors'],
      });
    };
  return {
    debug: at('debug'),
    info: at('info'),
    warn: at('warn'),
    error: at('error'),
    child: fields => roomLogger(write, { ...bound, ...fields }),
  };
}

/** Writes a line of a room into the log of its worker. */
export function writeRoomLine(log: Logger, { level, message, values, errors }: RoomLogLine): void {
  const unpacked = Object.entries(errors).map(([key, error]) => [key, unpackError(error)]);
  log[level]({ ...values, ...(Object.fromEntries(unpacked) as object) }, message);
}
