import { isOutlastError, isUnavailable, outlastError } from '../../errors/error.ts';

/** SQLSTATE classes and codes that mean "not now" rather than "never". */
const UNAVAILABLE = /^(08|53|57P|58|55P03|57014|25P03|25006|40)/;
const NETWORK = /^(E(?!RR_)[A-Z_]+|CONNECTION_)/;

/** Distinguishes a store that is away from a wrong statement; other errors pass unchanged, SQLSTATE and all. */
export function translatePgError(error: unknown): unknown {
  if (isOutlastError(error) || !(error instanceof Error)) return error;
  const code = (error as { code?: unknown }).code;
  const isOfSchema = code === '42P01' || code === '42883' || code === '42703';
  if (isOfSchema) return error.message.includes('outlast_') ? schemaMissing(error) : error;
  if (code === '3D000' || code === '28P01' || code === '28000')
    return unreachable(
      error,
      'Check the database name, user and password in OUTLAST_DATABASE_URL.',
    );
  if (code === '25006') return unreachable(error, READ_ONLY);
  const isAway =
    typeof code === 'string'
      ? UNAVAILABLE.test(code) || NETWORK.test(code)
      : CONNECTION_ENDED.test(error.message);
  return isAway
    ? unreachable(error, 'Check that the database of OUTLAST_DATABASE_URL runs and can be reached.')
    : error;
}

const READ_ONLY =
  'It is read-only here: name the primary and not a replica, or reset default_transaction_read_only of the database and the role.';

// pg gives these no code: the connection was closed under a query, or no connection came in time.
const CONNECTION_ENDED =
  /^(Connection terminated|timeout exceeded when trying to connect|Client has encountered a connection error|Cannot use a pool after calling end|Client was closed|Query read timeout)/;

function schemaMissing(cause: Error): Error {
  return outlastError('ERR_SCHEMA_MISSING', {
    message: `the database lacks Outlast's tables: ${cause.message}`,
    hint: 'Run: npx outlast migrate',
    fields: {},
    cause,
  });
}

function unreachable(cause: Error, hint: string): Error {
  return outlastError('ERR_STORE_UNAVAILABLE', {
    message: `the database cannot be used now: ${cause.message}`,
    hint,
    fields: {},
    cause,
  });
}

/** Drivers put it on the error itself, libraries around them on the cause. */
export function sqlStateOf(error: unknown): string | undefined {
  if (typeof error !== 'object' || error === null) return undefined;
  const { code, cause } = error as { readonly code?: unknown; readonly cause?: unknown };
  return typeof code === 'string' && /^[0-9A-Z]{5}$/.test(code) ? code : sqlStateOf(cause);
}

/** The session is gone, and with it the transaction, or the answer to its COMMIT. */
export function isConnectionLost(error: unknown): boolean {
  const state = sqlStateOf(error);
  if (state !== undefined) return /^(08|57P|25P03)/.test(state);
  return isUnavailable(translatePgError(error));
}
