import { isAbsolute, resolve } from 'node:path';
import { outlastError } from '../errors/error.ts';
import { rangeError } from './options.ts';

/** The embedded database in a folder beside the config file. */
export const DEFAULT_DATABASE = 'pglite:./.outlast';

/** Where the outbox lives, and with it broker, ledger and results. */
export type DatabaseTarget =
  | { readonly kind: 'pglite'; readonly url: string; readonly folder: string }
  | { readonly kind: 'postgres'; readonly url: string };

/** Where an outbox may live, its ledger included or not. */
export type OutboxTarget = DatabaseTarget | { readonly kind: 'mysql'; readonly url: string };

/** What a URL was given as, and what a relative folder in it is relative to. */
export interface UrlOrigin {
  readonly option: string;
  readonly folder: string;
}

const SCHEME = /^([a-z][a-z0-9+.-]*):/i;
const ALLOWED =
  'Use pglite:./folder, postgres://user:password@host:5432/name or postgresql://… as the database.';

const NAMED = 'Write it behind the host: mysql://user:password@host:3306/name.';

/** Reads a database URL; no message it throws holds a password. */
export function parseDatabaseUrl(url: unknown, origin: UrlOrigin): OutboxTarget {
  if (typeof url !== 'string' || url.trim() === '') {
    throw rangeError(origin.option, 'is not a URL', ALLOWED);
  }
  switch (SCHEME.exec(url)?.[1]?.toLowerCase()) {
    case 'pglite':
      return parseFolder(url, origin);
    case 'postgres':
    case 'postgresql':
      return parseServer('postgres', url, origin);
    case 'mysql':
    case 'mariadb':
      return parseServer('mysql', url, origin);
    default:
      throw rangeError(origin.option, `is ${maskUrl(url)}`, ALLOWED);
  }
}

function parseFolder(url: string, origin: UrlOrigin): DatabaseTarget {
  const path = url.slice('pglite:'.length).replace(/^\/\//, '');
  if (path === '') throw rangeError(origin.option, 'names no folder', ALLOWED);
  const folder = isAbsolute(path) ? resolve(path) : resolve(origin.folder, path);
  return Object.freeze({ kind: 'pglite', url: `pglite:${folder}`, folder });
}

/** For parts that have the ledger in the database: MySQL and MariaDB hold an outbox and nothing else. */
export function requireLedger(target: OutboxTarget): DatabaseTarget {
  if (target.kind !== 'mysql') return target;
  throw outlastError('ERR_CONFIG_TIER', {
    message:
      '`database` is MySQL or MariaDB, which are an outbox only, and this needs the ledger in it',
    hint: 'Use postgres:// for `database`, and name this one in `outboxes`: a relay publishes its tasks there.',
    fields: { option: 'database' },
  });
}

function parseServer(kind: 'postgres' | 'mysql', url: string, origin: UrlOrigin): OutboxTarget {
  // The error of `new URL` carries the whole text as `input`, so it is not kept as a cause.
  if (!/^[a-z]+:\/\//i.test(url) || !URL.canParse(url)) {
    throw rangeError(
      origin.option,
      `is ${maskUrl(url)}, which is not a well-formed URL`,
      `${ALLOWED} Special characters in the password must be percent-encoded.`,
    );
  }
  const isNamed = new URL(url).pathname.length > 1;
  // Without a name PostgreSQL takes the user's; MySQL takes none, and finds no table.
  if (kind === 'mysql' && !isNamed) throw rangeError(origin.option, 'names no database', NAMED);
  return Object.freeze({ kind, url });
}

// In a query, and in libpq's `host=db password=…`, which people paste here too.
const SECRET_PARAMETER =
  /((?:^|[?&;\s])[^=&;\s]*(?:pass|pwd|secret|token|key)[^=&;\s]*=)[^&;#\s]*/gi;
// Greedy up to the last `@`: a password with an unescaped `/`, `#` or `@` in it is masked whole.
const USER_AND_PASSWORD = /^([a-z][a-z0-9+.-]*:\/\/)([^:@/]*):.*@/is;
const NO_SCHEME = /^(?![a-z][a-z0-9+.-]*:\/\/).*@/is;

/**
 * The URL with its secrets covered, also when it is no URL at all.
 *
 * @example
 * maskUrl('postgres://app:hunter2@db/shop'); // 'postgres://app:***@db/shop'
 */
export function maskUrl(url: string): string {
  return url
    .replace(USER_AND_PASSWORD, '$1$2:***@')
    .replace(NO_SCHEME, '***@')
    .replaceAll(SECRET_PARAMETER, '$1***');
}
