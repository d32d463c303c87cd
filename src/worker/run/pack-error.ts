import { decodeError, encodeError } from '../../errors/wire-error.ts';
import type { PackedError } from '../isolate/isolate.ts';

/** Causes of causes are of little use, and a cycle of them has no end. */
const DEEPEST_CAUSE = 5;

/** Any thrown value, in a form that can be sent to another thread or process. */
export function packError(error: unknown, depth = 0): PackedError {
  const { stack, cause } = error instanceof Error ? error : {};
  const hasCause = cause !== undefined && depth < DEEPEST_CAUSE;
  return {
    ...clonable(encodeError(error)),
    stack: typeof stack === 'string' ? stack : '',
    cause: hasCause ? packError(cause, depth + 1) : null,
  };
}

/** The error again: with its code if it is one of Outlast's, else one that looks the same. */
export function unpackError({ stack, cause, ...wire }: PackedError): Error {
  const error = decodeError(wire);
  if (stack !== '') error.stack = stack;
  if (cause !== null) error.cause = unpackError(cause);
  return error;
}

/** The value itself if it can be cloned, else what a person would read. */
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
