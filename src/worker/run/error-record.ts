import { maskSecrets } from '../../errors/mask-secrets.ts';
import type { ErrorRecord } from '../../ledger/ledger.ts';
import { isOutlastError } from '../../errors/error.ts';
import { formatPath } from '../../task/standard-schema.ts';

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

/** Thrown when a schema refused a value: the message has the issues, `paths` has where they are. */
export class RefusedBySchema extends TypeError {
  readonly paths: readonly string[];

  constructor(message: string, paths: readonly string[]) {
    super(message);
    this.name = 'TypeError';
    this.paths = paths;
  }
}

/** As many as a person needs to find the cause. */
const MOST_PATHS = 20;

/**
 * An error of a schema or a migration as paths without messages: schemas quote what they refuse. Empty for all other errors:
 * what a handler throws is its own.
 */
export function briefly(error: unknown): { readonly brief?: ErrorRecord } {
  const message = briefMessage(error);
  if (message === null) return {};
  // The stack begins with the message.
  return { brief: { type: errorRecord(error).type, message, traceback: '' } };
}

function briefMessage(error: unknown): string | null {
  if (isOutlastError(error, 'ERR_MIGRATION_FAILED'))
    return `the migration of ${error.task} from version ${error.version} threw`;
  const paths = pathsOf(error);
  if (paths === null) return null;
  const quoted = paths.slice(0, MOST_PATHS).map(path => `\`${path}\``);
  const where = quoted.length === 0 ? '' : ` at ${quoted.join(', ')}`;
  return `a schema refused the value${where}; what it said is hidden`;
}

/** Null: it is no schema error. The errors that schemas throw themselves have issues, too. */
function pathsOf(error: unknown): readonly string[] | null {
  if (error instanceof RefusedBySchema) return error.paths;
  if (isOutlastError(error, 'ERR_INPUT_INVALID')) return error.issues.map(({ path }) => path);
  const { issues } = (error ?? {}) as { readonly issues?: unknown };
  if (!(error instanceof Error) || !Array.isArray(issues)) return null;
  return issues.map((issue: { readonly path?: unknown } | null) => pathOf(issue?.path));
}

function pathOf(path: unknown): string {
  try {
    return Array.isArray(path) ? formatPath(path as Parameters<typeof formatPath>[0]) : '';
  } catch {
    return '';
  }
}
