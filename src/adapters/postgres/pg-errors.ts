import { isOutlastError, outlastError } from '../../errors/error.ts';

/** SQLSTATE classes and codes that say "not now" rather than "not ever". */
const UNAVAILABLE = /^(08|53|57P|58|55P03|57014|25P03|40)/;
const NETWORK = /^(E[A-Z]+|CONNECTION_)/;

/** Tells a store that is away from a statement that is wrong; other errors pass as they are, SQLSTATE and all. */
export function translatePgError(error: unknown): unknown {
  if (isOutlastError(error) || !(error instanceof Error)) return error;
  const code = (error as { code?: unknown }).code;
  if (code === '42P01' || code === '42883' || code === '42703') return schemaMissing(error);
  if (code === '3D000' || code === '28P01' || code === '28000')
    return unreachable(
      error,
      'Check the database name, user and password in OUTLAST_DATABASE_URL.',
    );
  const isAway =
    typeof code === 'string'
      ? UNAVAILABLE.test(code) || NETWORK.test(code)
      : CONNECTION_ENDED.test(error.message);
  return isAway
    ? unreachable(
        error,
        'Check that the database of OUTLAST_DATABASE_URL runs and can be reached; Outlast tries again by itself.',
      )
    : error;
}

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
