import { maskSecrets } from '../../errors/mask-secrets.ts';
import type { ErrorRecord } from '../../ledger/ledger.ts';

// Errors are stored in rows and shown to people: long enough to understand, too short to fill a database.
const MAX_MESSAGE = 2_000;
const MAX_TRACEBACK = 8_000;

/** Any thrown value, as texts of bounded length. */
export function errorRecord(error: unknown): ErrorRecord {
  if (!(error instanceof Error))
    return { type: typeof error, message: shortText(error), traceback: '' };
  return {
    type: shortText(error.name || 'Error'),
    // A thrower may have put anything there.
    message: shortText(error.message),
    traceback: maskSecrets(tracebackOf(error).slice(0, MAX_TRACEBACK)),
  };
}

/** Any value, as a text that is stored with a task. Drivers quote the URLs they were given. */
export function shortText(value: unknown): string {
  return maskSecrets(describe(value).slice(0, MAX_MESSAGE));
}

/** With the error that it wraps, if there is one: that is where the cause is. */
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
