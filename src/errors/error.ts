import { ERROR_FAMILY, type ErrorCode, type ErrorFamily, type ErrorFields } from './codes.ts';
import { maskSecrets } from './mask-secrets.ts';

/** Identified by brand, not by class: two copies of the package in one process do no harm. */
const BRAND: unique symbol = Symbol.for('outlast.error') as never;

export interface ErrorDetails<C extends ErrorCode> {
  readonly message: string;
  /** What to do about it, as an instruction. */
  readonly hint: string;
  readonly fields: ErrorFields[C];
  readonly cause?: unknown;
}

/**
 * The base of all errors. Read `code`; `message` and `hint` are for people.
 *
 * @example
 * if (isOutlastError(error)) console.log(error.code, error.hint);
 */
export class OutlastError<C extends ErrorCode = ErrorCode> extends Error {
  readonly code: C;
  readonly hint: string;

  constructor(code: C, details: ErrorDetails<C>) {
    super(
      maskSecrets(details.message),
      details.cause === undefined ? undefined : { cause: details.cause },
    );
    this.code = code;
    this.hint = details.hint;
    this.name = ERROR_FAMILY[code];
    Object.defineProperty(this, BRAND, { value: true });
    Object.assign(this, details.fields);
  }
}

/**
 * The configuration is wrong: fix it, never retry.
 *
 * @example
 * if (isOutlastError(error, 'ERR_UNKNOWN_OPTION')) console.log(error.option, error.nearest);
 */
export class ConfigError extends OutlastError {}
/**
 * The call is wrong: fix it, never retry. Thrown before the caller's transaction is touched.
 *
 * @example
 * if (isOutlastError(error, 'ERR_PAYLOAD_TOO_LARGE')) console.log(error.bytes);
 */
export class UsageError extends OutlastError {}
/**
 * A limit is reached: wait `retryAfterMs`, then ask again.
 *
 * @example
 * if (isOutlastError(error, 'ERR_ADMISSION_REJECTED')) console.log(error.key, error.retryAfterMs);
 */
export class AdmissionRejectedError extends OutlastError {}
/**
 * What `result()` found instead of a result.
 *
 * @example
 * if (isOutlastError(error, 'ERR_RESULT_TIMEOUT')) console.log(error.state);
 */
export class OutcomeError extends OutlastError {}
/**
 * A store or broker cannot be reached: try again with backoff.
 *
 * @example
 * if (isOutlastError(error) && error.name === 'UnavailableError') console.log('later', error.code);
 */
export class UnavailableError extends OutlastError {}
/**
 * Another run or process owns it now: stop, write nothing.
 *
 * @example
 * if (isOutlastError(error) && error.name === 'OwnershipError') console.log('another run has it');
 */
export class OwnershipError extends OutlastError {}
/**
 * This task can never run as it is: it becomes a dead letter.
 *
 * @example
 * if (isOutlastError(error) && error.name === 'RejectedTaskError') console.log(error.code, error.hint);
 */
export class RejectedTaskError extends OutlastError {}
/**
 * A bug in Outlast.
 *
 * @example
 * if (isOutlastError(error) && error.name === 'InvariantError') console.log('please report', error.message);
 */
export class InvariantError extends OutlastError {}

type ErrorClass = new <C extends ErrorCode>(code: C, details: ErrorDetails<C>) => OutlastError<C>;

const CLASSES = {
  ConfigError,
  UsageError,
  AdmissionRejectedError,
  OutcomeError,
  UnavailableError,
  OwnershipError,
  RejectedTaskError,
  InvariantError,
} as unknown as Readonly<Record<ErrorFamily, ErrorClass>>;

/** Makes the error of the family its code belongs to. */
export function outlastError<C extends ErrorCode>(
  code: C,
  details: ErrorDetails<C>,
): OutlastError<C> & ErrorFields[C] {
  return new CLASSES[ERROR_FAMILY[code]](code, details) as OutlastError<C> & ErrorFields[C];
}

/**
 * Narrows an unknown error to Outlast's, and to one code's fields when a code is given.
 *
 * @example
 * if (isOutlastError(error, 'ERR_PAYLOAD_TOO_LARGE')) console.log(error.bytes, error.maxBytes);
 */
export function isOutlastError<C extends ErrorCode = ErrorCode>(
  error: unknown,
  code?: C,
): error is OutlastError<C> & ErrorFields[C] {
  if (typeof error !== 'object' || error === null || !(BRAND in error)) return false;
  return code === undefined || (error as unknown as OutlastError).code === code;
}

/** True for errors whose remedy is to wait and try again. */
export function isUnavailable(error: unknown): boolean {
  return isOutlastError(error) && ERROR_FAMILY[error.code] === 'UnavailableError';
}
