import { outlastError, type OutlastError } from '../../errors/error.ts';

/** The database of another process, or our own after its end, cannot be reached. */
export function storeUnavailable(
  message: string,
  hint: string,
  cause?: unknown,
): OutlastError<'ERR_STORE_UNAVAILABLE'> {
  return outlastError('ERR_STORE_UNAVAILABLE', {
    message,
    hint,
    fields: {},
    ...(cause === undefined ? {} : { cause }),
  });
}
