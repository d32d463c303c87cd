import { isOutlastError, outlastError } from '../../errors/error.ts';

/** The part of an error of `mysql2` or `mariadb` that is used. */
interface DriverError extends Error {
  readonly errno?: unknown;
  readonly code?: unknown;
  readonly fatal?: unknown;
  sql?: unknown;
}

const DEADLOCK = 1213;
const LOCK_WAIT = 1205;
const CHANGED = 1020;
const DUPLICATE = 1062;
const NO_SAVEPOINT = 1305;
const IN_PROGRESS = 1568;
const READ_ONLY_TRANSACTION = 1792;

/** A table, column or index that exists already, or a row of ours. */
const PRESENT: ReadonlySet<unknown> = new Set([1050, 1060, 1061, DUPLICATE]);
/** A table or a column that does not exist. */
const ABSENT: ReadonlySet<unknown> = new Set([1146, 1054]);
/** The server does not accept the database, the user or the password. */
const REFUSED: ReadonlySet<unknown> = new Set([1044, 1045, 1049, 1698]);
/**
 * "Not now" rather than "never": too many connections, shutdown, out of memory or disk, killed or timed out, a cluster node
 * that is not ready, lock timeouts and deadlocks.
 */
const UNAVAILABLE: ReadonlySet<unknown> = new Set([
  1021,
  1037,
  1038,
  1040,
  1041,
  1047,
  1053,
  1077,
  1152,
  1158,
  1159,
  1160,
  1161,
  1184,
  1203,
  LOCK_WAIT,
  1206,
  DEADLOCK,
  1317,
  1927,
  1969,
  3024,
  3168,
  4031,
]);
/** The server, the session or the transaction is read-only. */
const READ_ONLY: ReadonlySet<unknown> = new Set([1290, READ_ONLY_TRANSACTION, 1836]);
/** Of the operating system and of the drivers themselves: a connection that was not established, or broke. */
const NETWORK =
  /^(E(?!R_)[A-Z_]+|PROTOCOL_[A-Z_]+|HANDSHAKE_[A-Z_]+|ER_(SOCKET|CONNECTION|CMD_CONNECTION|GET_CONNECTION|POOL|ADD_CONNECTION)[A-Z_]*)$/;
// mysql2 gives these no code.
const CONNECTION_ENDED =
  /^(Pool is closed|Can't add new command when connection is in closed state|Connection lost)/;

/** Drivers put it on the error itself, libraries around them on the cause. */
function numberOf(error: unknown): unknown {
  if (typeof error !== 'object' || error === null) return undefined;
  const { errno, cause } = error as { readonly errno?: unknown; readonly cause?: unknown };
  return typeof errno === 'number' && errno > 0 ? errno : numberOf(cause);
}

export const isDuplicate = (error: unknown): boolean => numberOf(error) === DUPLICATE;
/** The savepoint to release does not exist. */
export const isUnmarked = (error: unknown): boolean => numberOf(error) === NO_SAVEPOINT;
/** The characteristics of a transaction cannot be changed, because one is open. */
export const isInProgress = (error: unknown): boolean => numberOf(error) === IN_PROGRESS;
export const isReadOnly = (error: unknown): boolean => numberOf(error) === READ_ONLY_TRANSACTION;
export const isPresent = (error: unknown): boolean => PRESENT.has(numberOf(error));
export const isDeadlock = (error: unknown): boolean => numberOf(error) === DEADLOCK;
/** A deadlock, or a row that has changed since a snapshot that must be kept (MariaDB): the transaction may start over. */
export const isConflict = (error: unknown): boolean =>
  isDeadlock(error) || numberOf(error) === CHANGED;
export const isLockWait = (error: unknown): boolean => numberOf(error) === LOCK_WAIT;

/** No further statement may be sent on the connection of this error, or of its cause. */
export function isBroken(error: unknown): boolean {
  if (!(error instanceof Error)) return false;
  const { fatal, code, cause } = error as DriverError;
  const isOfConnection = fatal === true || (typeof code === 'string' && NETWORK.test(code));
  return isOfConnection || isBroken(cause);
}

/**
 * Distinguishes a store that is away from a wrong statement; other errors pass unchanged, without their values. If a
 * statement of ours finds no table, it is missing; in a user's statement, only if it bears our name.
 */
export function translateMysqlError(error: unknown, whose: 'ours' | 'theirs' = 'ours'): unknown {
  if (isOutlastError(error) || !(error instanceof Error)) return error;
  withoutValues(error);
  const number = numberOf(error);
  if (ABSENT.has(number)) {
    const isOurs = whose === 'ours' || error.message.includes('outlast_');
    return isOurs ? schemaMissing(error) : error;
  }
  if (REFUSED.has(number))
    return unreachable(error, 'Check the database name, user and password of the URL.');
  if (READ_ONLY.has(number))
    return unreachable(
      error,
      'It is read-only here: name the primary and not a replica, or reset read_only and transaction_read_only.',
    );
  return UNAVAILABLE.has(number) || isNetwork(error)
    ? unreachable(error, 'Check that the database runs and can be reached.')
    : error;
}

function isNetwork(error: DriverError): boolean {
  return typeof error.code === 'string'
    ? NETWORK.test(error.code)
    : CONNECTION_ENDED.test(error.message);
}

/** Both drivers attach the whole statement to their errors, `mariadb` to the message: payloads must not be logged. */
function withoutValues(error: DriverError): void {
  const { message, stack } = error;
  const bare = message.split('\nsql: ')[0] ?? '';
  if (bare !== message) {
    error.message = bare;
    if (stack !== undefined) error.stack = stack.replace(message, () => bare);
  }
  if (error.sql !== undefined) error.sql = undefined;
}

function schemaMissing(cause: Error): Error {
  return outlastError('ERR_SCHEMA_MISSING', {
    message: `the database lacks Outlast's tables: ${cause.message}`,
    hint: 'Run: npx outlast migrate, with --outbox NAME for a named outbox',
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
