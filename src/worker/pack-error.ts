import { decodeError, encodeError } from '../errors/wire-error.ts';
import type { PackedError } from './room.ts';

/** Causes of causes are of no use to anybody, and a circle of them has no end. */
const DEEPEST_CAUSE = 5;

/** Whatever was thrown, so that it can go to another thread or process. */
export function packError(error: unknown, depth = 0): PackedError {
  const { stack, cause } = error instanceof Error ? error : {};
  const hasCause = cause !== undefined && depth < DEEPEST_CAUSE;
  return {
    ...clonable(encodeError(error)),
    stack: typeof stack === 'string' ? stack : '',
    cause: hasCause ? packError(cause, depth + 1) : null,
  };
}

/** The error again: of its code where it is one of Outlast's, else one that looks the same. */
export function unpackError({ stack, cause, ...wire }: PackedError): Error {
  const error = decodeError(wire);
  if (stack !== '') error.stack = stack;
  if (cause !== null) error.cause = unpackError(cause);
  return error;
}

/** The value itself where it can travel, else what a person would read. */
export function clonable<T>(value: T): T {
  try {
    return structuredClone(value);
  } catch {
    return readable(value) as T;
  }
}

function readable(value: unknown): unknown {
  try {
    return JSON.parse(JSON.stringify(value) ?? '""');
  } catch {
    return 'a value that cannot be shown';
  }
}
