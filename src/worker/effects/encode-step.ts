import { isOutlastError, outlastError } from '../../errors/error.ts';
import { encodeJson, toBytes } from '../../task/json.ts';

/** What a function of `ctx.transaction` has returned. An arrow without braces returns what its statement gave, often unmeant. */
export function encodeStep(value: unknown, step: string): Uint8Array {
  try {
    return toBytes(encodeJson(value));
  } catch (error) {
    if (!isOutlastError(error, 'ERR_INPUT_NOT_JSON')) throw error;
    throw outlastError('ERR_INPUT_NOT_JSON', {
      message: `what ctx.transaction should keep for its step ${step} cannot be kept: ${error.message}`,
      hint: 'Return plain data that later runs need, or nothing: `async tx => { await tx.… }`.',
      fields: { path: error.path },
      cause: error,
    });
  }
}
