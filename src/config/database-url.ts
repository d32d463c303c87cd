import { isAbsolute, resolve } from 'node:path';
import { outlastError } from '../errors/error.ts';
import { hasMisplacedAt, maskUrl } from '../errors/mask-secrets.ts';
import { DIALECTS } from '../adapters/dialects.ts';
import type { DialectRow } from '../adapters/sql/dialect.ts';
import type { OutboxTarget } from './database-target.ts';
import { memoryTarget } from './memory-folder.ts';
import { rangeError, shown } from './options.ts';

/** What a URL was given as, and what a relative folder in it is relative to. */
export interface UrlOrigin {
  readonly option: string;
  readonly folder: string;
}

const SCHEME = /^([a-z][a-z0-9+.-]*):/i;
const ALLOWED =
  'Use pglite:./folder, pglite:memory://, postgres://user:password@host:5432/name or postgresql://… as the database.';

/** Reads a database URL; no message it throws holds a password. */
export function parseDatabaseUrl(url: unknown, origin: UrlOrigin): OutboxTarget {
  if (typeof url !== 'string' || url.trim() === '') {
    throw rangeError(origin.option, 'is not a URL', ALLOWED);
  }
  const scheme = SCHEME.exec(url)?.[1]?.toLowerCase() ?? '';
  const [kind, row] =
    Object.entries(DIALECTS).find(([, { schemes }]) => schemes.includes(scheme)) ?? [];
  if (kind === undefined || row === undefined)
    throw rangeError(origin.option, `is ${maskUrl(url)}`, ALLOWED);
  return row.location === 'folder'
    ? parseFolder({ kind, scheme, url }, origin)
    : parseServer({ kind, scheme, url }, row, origin);
}

/** Short enough for the names of channels, which begin with it; neither quotes nor dots, because it is put into statements. */
const SCHEMA = /^(?!pg_)[a-z_][a-z0-9_]{0,39}$/;

/** The same database with its tables in a schema. */
export function inSchema(target: OutboxTarget, schema: unknown, option: string): OutboxTarget {
  if (schema === undefined) return target;
  if (typeof schema !== 'string' || !SCHEMA.test(schema))
    throw rangeError(
      option,
      `is ${shown(schema)}`,
      'Use up to 40 small letters, digits and _, as in `outlast`; pg_ is for PostgreSQL.',
    );
  const { hasSchemas, title } = dialectRow(target);
  if (!hasSchemas)
    throw outlastError('ERR_CONFIG_TIER', {
      message: `\`${option}\` is set, and ${title} has no schemas`,
      hint: `Remove \`${option}\`: the tables are in the database that the URL names.`,
      fields: { option },
    });
  return Object.freeze({ ...target, schema });
}

/** What is known of the kind of a database without loading it. */
export function dialectRow({ kind }: OutboxTarget): DialectRow {
  const row = DIALECTS[kind];
  if (row === undefined) throw new Error(`there is no dialect ${kind}`);
  return row;
}

/** Whether one process at a time holds it, with all who use it in that process or behind it. */
export function isEmbedded(
  target: OutboxTarget,
): target is OutboxTarget & { readonly folder: string } {
  return target.folder !== undefined;
}

interface FoundUrl {
  readonly kind: string;
  readonly scheme: string;
  readonly url: string;
}

function parseFolder({ kind, scheme, url }: FoundUrl, origin: UrlOrigin): OutboxTarget {
  // A folder of that name would be made, and shown with the password in it.
  if (/^[^:]+:\/\/[^/]*@/.test(url)) {
    throw rangeError(origin.option, `is ${maskUrl(url)}, and ${scheme}: takes a folder`, ALLOWED);
  }
  if (/^[^:]+:memory:\/\/$/i.test(url)) return memoryTarget(kind);
  const path = url.slice(`${scheme}:`.length).replace(/^\/\//, '');
  if (path === '') throw rangeError(origin.option, 'names no folder', ALLOWED);
  const folder = isAbsolute(path) ? resolve(path) : resolve(origin.folder, path);
  return Object.freeze({ kind, url: `${scheme}:${folder}`, folder });
}

/** For parts that have the ledger in the database. */
export function requireLedger(target: OutboxTarget): OutboxTarget {
  if (!dialectRow(target).canBeLedger) throw outboxOnly();
  return target;
}

export function outboxOnly(): Error {
  return outlastError('ERR_CONFIG_TIER', {
    message: '`database` is of a kind that is an outbox only, and this needs the ledger in it',
    hint: 'Use postgres:// for `database`, and name this one in `outboxes`: a relay publishes its tasks there.',
    fields: { option: 'database' },
  });
}

function parseServer(
  { kind, scheme, url }: FoundUrl,
  { location }: DialectRow,
  origin: UrlOrigin,
): OutboxTarget {
  // The error of `new URL` carries the whole text as `input`, so it is not kept as a cause.
  if (!/^[a-z]+:\/\//i.test(url) || !URL.canParse(url)) {
    throw rangeError(
      origin.option,
      `is ${maskUrl(url)}, which is not a well-formed URL`,
      `${ALLOWED} Special characters in the password must be percent-encoded.`,
    );
  }
  if (hasMisplacedAt(url)) {
    throw rangeError(
      origin.option,
      `is ${maskUrl(url)}, which has an @ behind its host`,
      'Percent-encode special characters in user and password: / is %2F, ? is %3F, # is %23, @ is %40.',
    );
  }
  const isNamed = new URL(url).pathname.length > 1;
  // Without a name PostgreSQL takes the user's; MySQL takes none, and finds no table.
  if (location === 'named-server' && !isNamed)
    throw rangeError(
      origin.option,
      'names no database',
      `Write it behind the host: ${scheme}://user:password@host/name.`,
    );
  return Object.freeze({ kind, url });
}
