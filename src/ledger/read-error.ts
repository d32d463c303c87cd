import { decodeJson } from '../task/json.ts';
import type { ErrorRecord } from './follow-up-log.ts';

/** For people to read. Text that is no error record, because another program wrote it, is shown unchanged. */
export function readErrorRecord(text: string): ErrorRecord {
  const shown = { type: 'unknown', message: text.slice(0, 1_000), traceback: '' };
  try {
    const value = decodeJson(text);
    const isError = typeof value === 'object' && value !== null && 'message' in value;
    return isError ? (value as ErrorRecord) : shown;
  } catch {
    return shown;
  }
}
