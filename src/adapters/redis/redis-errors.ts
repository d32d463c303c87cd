import { isOutlastError, outlastError } from '../../errors/error.ts';

/** What a Redis is used for, which decides the error code when it is away. */
export interface RedisRole {
  readonly is: 'broker' | 'ledger';
  /** With secrets masked. */
  readonly maskedUrl: string;
}

/** First words of replies that are temporary refusals, each with its remedy. */
const NOT_NOW: Readonly<Record<string, string>> = {
  OOM: 'Its memory is full: raise maxmemory, or let workers drain the queues.',
  LOADING: 'It is reading its data after a start; wait.',
  READONLY: 'It is a replica: name the primary, or use sentinel://.',
  MASTERDOWN: 'It is a replica without its primary; wait for the failover.',
  CLUSTERDOWN: 'Part of the cluster has no owner; look at CLUSTER INFO.',
  TRYAGAIN: 'The cluster is moving this slot; wait.',
  BUSY: 'A script has kept it busy for seconds; look at its slow log.',
  MISCONF: 'It cannot save its data and takes no writes; look at its disk.',
  NOREPLICAS: 'Too few replicas follow it to take writes.',
  UNBLOCKED: 'It became a replica while we waited.',
  NOAUTH: 'It wants a password: put it in the URL.',
  WRONGPASS: 'Check user and password in the URL.',
  NOPERM: 'The user of the URL lacks a permission; look at its ACL.',
};
const NO_DATABASE = /^ERR (DB index is out of range|invalid DB index|SELECT is not allowed)/;
const TOO_MANY_CLIENTS = /^ERR max number of clients/;
// Before version 7 a script with `#!lua` in its first line is a syntax error.
const TOO_OLD = /^ERR Error compiling script .*near '#'|unexpected symbol near '#'/s;

/** The first word of an error from Redis itself, or null for a connection error. */
export function replyCodeOf(error: unknown): string | null {
  if (!(error instanceof Error) || error.name !== 'ReplyError') return null;
  return /^-?([A-Z]+)\b/.exec(error.message)?.[1] ?? 'ERR';
}

/** The key has another type than the command expects. */
export const isWrongType = (error: unknown): boolean => replyCodeOf(error) === 'WRONGTYPE';

/** Distinguishes a Redis that is away from a wrong call; other errors pass unchanged. */
export function translateRedisError(error: unknown, role: RedisRole): unknown {
  if (isOutlastError(error) || !(error instanceof Error)) return error;
  // The driver attaches the whole command: task bodies, and for AUTH the password.
  Reflect.deleteProperty(error, 'command');
  const code = replyCodeOf(error);
  if (code === null) return unavailable(error, role, 'Check that it runs and can be reached.');
  if (TOO_OLD.test(error.message)) return tooOld(error, role);
  if (NO_DATABASE.test(error.message)) {
    return unavailable(error, role, 'Check the number of the database at the end of the URL.');
  }
  if (TOO_MANY_CLIENTS.test(error.message)) return unavailable(error, role, 'Raise maxclients.');
  const hint = NOT_NOW[code];
  return hint === undefined ? error : unavailable(error, role, hint);
}

function unavailable(cause: Error, role: RedisRole, hint: string): Error {
  // The driver's own message explains driver options.
  const isCut = cause.name === 'MaxRetriesPerRequestError' || cause.message.startsWith('Stream is');
  const why = isCut ? 'the connection broke, and with it the reply' : cause.message;
  const message = `Redis at ${role.maskedUrl} cannot be used now: ${why}`;
  return role.is === 'broker'
    ? outlastError('ERR_BROKER_UNAVAILABLE', {
        message,
        hint,
        fields: { scope: 'connection' },
        cause,
      })
    : outlastError('ERR_STORE_UNAVAILABLE', { message, hint, fields: {}, cause });
}

function tooOld(cause: Error, role: RedisRole): Error {
  return outlastError('ERR_CONFIG_TIER', {
    message: `Redis at ${role.maskedUrl} is older than version 7`,
    hint: 'Use Redis 7.0 or later: its scripts can run when memory is full, which draining a full queue needs.',
    fields: { option: role.is },
    cause,
  });
}
