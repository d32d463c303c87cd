import type { ErrorRecord } from '../ledger/ledger.ts';

// Errors are kept in rows and shown to people: long enough to understand, too short to fill a database.
const MAX_MESSAGE = 2_000;
const MAX_TRACEBACK = 8_000;

/** What anybody may throw, as texts of bounded length. */
export function errorRecord(error: unknown): ErrorRecord {
  if (!(error instanceof Error))
    return { type: typeof error, message: shortText(error), traceback: '' };
  return {
    type: shortText(error.name || 'Error'),
    // Whoever throws may have put anything there.
    message: shortText(error.message),
    traceback: tracebackOf(error).slice(0, MAX_TRACEBACK),
  };
}

/** Whatever it is, as a text that is kept beside a task. */
export function shortText(value: unknown): string {
  return describe(value).slice(0, MAX_MESSAGE);
}

/** With the error that it wraps, where there is one: that is where somebody must look. */
function tracebackOf({ stack, cause }: Error): string {
  const own = describe(stack ?? '');
  return cause instanceof Error ? `${own}\n[cause]: ${describe(cause.stack ?? '')}` : own;
}

function describe(value: unknown): string {
  try {
    return typeof value === 'string' ? value : (JSON.stringify(value) ?? String(value));
  } catch {
    return 'a value that cannot be shown';
  }
}
