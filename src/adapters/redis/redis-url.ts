import { maskUrl } from '../../errors/mask-secrets.ts';
import { rangeError } from '../../config/options.ts';

export interface RedisAddress {
  readonly host: string;
  readonly port: number;
}

/** The target of a Redis URL. */
export interface RedisTarget {
  readonly kind: 'single' | 'sentinel' | 'cluster';
  /** One server, or the sentinels, or seed nodes of the cluster. */
  readonly addresses: readonly RedisAddress[];
  /** The sentinels' name for the server; empty elsewhere. */
  readonly service: string;
  readonly username: string | undefined;
  readonly password: string | undefined;
  readonly db: number;
  readonly tls: RedisTlsFiles | null;
}

/** File paths, named in the query as in redis-py. */
export interface RedisTlsFiles {
  readonly ca: string | null;
  readonly cert: string | null;
  readonly key: string | null;
}

interface Scheme {
  readonly kind: RedisTarget['kind'];
  readonly isTls: boolean;
  readonly port: number;
}

const SCHEMES: Readonly<Record<string, Scheme>> = {
  redis: { kind: 'single', isTls: false, port: 6379 },
  rediss: { kind: 'single', isTls: true, port: 6379 },
  sentinel: { kind: 'sentinel', isTls: false, port: 26_379 },
  'redis+cluster': { kind: 'cluster', isTls: false, port: 6379 },
  'rediss+cluster': { kind: 'cluster', isTls: true, port: 6379 },
};

const ALLOWED =
  'Use redis://user:password@host:6379/0, rediss://…, sentinel://host1:26379,host2:26379/service/0 or redis+cluster://host1:6379,host2:6379. Special characters in the password must be percent-encoded.';

// Hosts are between the last `@` and the first `/` or `?`; several are separated by commas, which no URL class accepts.
const SHAPE =
  /^(?<scheme>[a-z][a-z+]*):\/\/(?:(?<user>[^:@/?]*)(?::(?<password>[^@/?]*))?@)?(?<hosts>[^@/?]*)(?:\/(?<path>[^?]*))?(?:\?(?<query>.*))?$/i;
const HOST = /^(?:\[(?<six>[0-9a-f:.]+)\]|(?<name>[^:[\]\s]+))(?::(?<port>\d{1,5}))?$/i;

/** Reads a Redis URL; its error messages never contain a password. */
export function parseRedisUrl(url: string, option: string): RedisTarget {
  const refuse = (why: string): Error => rangeError(option, `is ${maskUrl(url)}: ${why}`, ALLOWED);
  const [first = '', ...others] = url.split(';');
  const main = SHAPE.exec(first)?.groups;
  const scheme = SCHEMES[main?.['scheme']?.toLowerCase() ?? ''];
  if (main === undefined || scheme === undefined) throw refuse('it is not a Redis URL');
  // Kombu repeats the whole URL for each sentinel; other parts than the host come from the first URL that has them.
  const urls = [main, ...others.map(other => sentinelUrl(other, scheme, refuse))];
  const query = new URLSearchParams(urls.find(one => one['query'])?.['query'] ?? '');
  const path = decode(urls.find(one => one['path'])?.['path'] ?? '', refuse);
  const who = urls.find(one => one['user'] !== undefined);
  const { service, db } = readPath(scheme, path, query, refuse);
  return {
    kind: scheme.kind,
    addresses: urls.flatMap(one => readHosts(one['hosts'] ?? '', scheme, refuse)),
    service,
    db,
    username: blank(decode(who?.['user'] ?? '', refuse)),
    password: blank(decode(who?.['password'] ?? '', refuse)),
    tls: readTls(scheme, query, refuse),
  };
}

export function isRedisCluster(url: string): boolean {
  return parseRedisUrl(url, 'ledger').kind === 'cluster';
}

/** Whether two URLs lead to the same server, in any database. */
export function isSameRedis(one: string, other: string): boolean {
  const [a, b] = [one, other].map(url => {
    const { kind, addresses, service } = parseRedisUrl(url, 'ledger');
    const hosts = addresses.map(({ host, port }) => `${host}:${port}`).sort();
    return [kind, service, ...hosts].join('/');
  });
  return a === b;
}

/** Whether a script can reach the keys of both: same server, same database. */
export function isSameKeyspace(one: string, other: string): boolean {
  const [a, b] = [parseRedisUrl(one, 'ledger'), parseRedisUrl(other, 'ledger')];
  return a.kind !== 'cluster' && a.db === b.db && isSameRedis(one, other);
}

type Refuse = (why: string) => Error;
type Groups = Readonly<Record<string, string | undefined>>;

function sentinelUrl(url: string, scheme: Scheme, refuse: Refuse): Groups {
  const groups = SHAPE.exec(url)?.groups;
  if (scheme.kind !== 'sentinel' || groups?.['scheme']?.toLowerCase() !== 'sentinel') {
    throw refuse('only sentinel:// URLs may be joined by semicolons');
  }
  return groups;
}

function readHosts(hosts: string, scheme: Scheme, refuse: Refuse): RedisAddress[] {
  const list = hosts === '' ? ['localhost'] : hosts.split(',');
  if (scheme.kind === 'single' && list.length > 1) {
    throw refuse('it names several hosts, which only sentinel:// and redis+cluster:// may');
  }
  return list.map(text => {
    const host = HOST.exec(text)?.groups;
    const port = Number(host?.['port'] ?? scheme.port);
    if (host === undefined || port < 1 || port > 65_535) throw refuse('a host or port is wrong');
    return { host: host['six'] ?? host['name'] ?? '', port };
  });
}

/** `/db`, and with sentinels `/service/db`; kombu has a separate option for the service, here it may be in the query. */
function readPath(
  scheme: Scheme,
  path: string,
  query: URLSearchParams,
  refuse: Refuse,
): { readonly service: string; readonly db: number } {
  const parts = path.split('/').filter(part => part !== '');
  const isNumber = (text: string | undefined): boolean => /^\d+$/.test(text ?? '');
  const named = scheme.kind === 'sentinel' && !isNumber(parts[0]) ? parts.shift() : undefined;
  const service = scheme.kind === 'sentinel' ? (named ?? query.get('master_name') ?? '') : '';
  if (scheme.kind === 'sentinel' && service === '') {
    throw refuse('it does not name the service that the sentinels watch');
  }
  const db = parts.shift() ?? query.get('db') ?? query.get('virtual_host') ?? '0';
  if (!isNumber(db) || parts.length > 0) throw refuse('the database is a number');
  if (scheme.kind === 'cluster' && Number(db) !== 0) throw refuse('a cluster has database 0 only');
  return { service, db: Number(db) };
}

const UNVERIFIED = new Set(['none', 'optional', 'cert_none', 'cert_optional']);

function readTls(scheme: Scheme, query: URLSearchParams, refuse: Refuse): RedisTlsFiles | null {
  if (UNVERIFIED.has((query.get('ssl_cert_reqs') ?? '').toLowerCase())) {
    throw refuse('TLS without verification is not offered; name the authority in ssl_ca_certs');
  }
  if (!scheme.isTls) return null;
  return {
    ca: query.get('ssl_ca_certs'),
    cert: query.get('ssl_certfile'),
    key: query.get('ssl_keyfile'),
  };
}

function decode(text: string, refuse: Refuse): string {
  try {
    return decodeURIComponent(text);
  } catch {
    throw refuse('it is not percent-encoded well');
  }
}

const blank = (text: string): string | undefined => (text === '' ? undefined : text);
