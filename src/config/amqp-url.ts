import { hasMisplacedAt, maskUrl } from '../errors/mask-secrets.ts';
import { rangeError } from './options.ts';

/** One RabbitMQ server of a URL. */
export interface RabbitHost {
  readonly isTls: boolean;
  readonly hostname: string;
  readonly port: number;
  readonly username: string;
  readonly password: string;
  readonly vhost: string;
  /** Seconds between two heartbeats; two missed ones end the connection. */
  readonly heartbeatSeconds: number;
  readonly connectTimeoutMs: number;
  /** Certificate files, read again for every connection. */
  readonly caFile: string | null;
  readonly certFile: string | null;
  readonly keyFile: string | null;
  /** The name the server's certificate must have; its host name unless given. */
  readonly serverName: string | null;
}

const EXAMPLE =
  'Use amqp://user:password@host:5672/vhost or amqps://…; several hosts as host1,host2 or as URLs with ; between.';
const ESCAPING = 'Special characters in user and password must be percent-encoded.';
const SHAPE = /^(amqp|amqps|pyamqp):\/\/(?:([^@/?#]*)@)?([^/?#]*)(\/[^?#]*)?(?:\?([^#]*))?$/i;
const HOST = /^(?:\[([0-9a-f:.]+)\]|([a-z0-9._-]*))(?::(\d{1,5}))?$/i;

/** A lost server or a half-open connection is noticed after two of these. */
const HEARTBEAT_SECONDS = 10;
const CONNECT_TIMEOUT_MS = 5_000;

/** Reads `amqp://a,b/vhost?heartbeat=5` and `amqp://a;amqp://b`. No message it throws holds a password. */
export function parseAmqpUrl(url: string, option: string): readonly RabbitHost[] {
  const wrong = (problem: string, hint = EXAMPLE): Error =>
    rangeError(option, `is ${maskUrl(url)}, ${problem}`, hint);
  if (hasMisplacedAt(url)) throw wrong('which has an @ behind its host', ESCAPING);
  return Object.freeze(url.split(';').flatMap(part => parseOne(part.trim(), wrong)));
}

type Wrong = (problem: string, hint?: string) => Error;

function parseOne(url: string, wrong: Wrong): readonly RabbitHost[] {
  const match = SHAPE.exec(url);
  if (!match) throw wrong('which is not a well-formed URL', `${EXAMPLE} ${ESCAPING}`);
  const [, scheme = '', userInfo, authority = '', path = '', query = ''] = match;
  const isTls = scheme.toLowerCase() === 'amqps';
  const colon = userInfo?.indexOf(':') ?? -1;
  const user = colon === -1 ? userInfo : userInfo?.slice(0, colon);
  const password = colon === -1 ? undefined : userInfo?.slice(colon + 1);
  const shared = {
    isTls,
    // As in every client: without a user name it is RabbitMQ's own guest.
    username: decoded(user ?? 'guest', wrong),
    password: decoded(password ?? (userInfo === undefined ? 'guest' : ''), wrong),
    vhost: path === '' || path === '/' ? '/' : decoded(path.slice(1), wrong),
    ...readQuery(new URLSearchParams(query), wrong),
  };
  return authority.split(',').map(host => ({ ...shared, ...readHost(host, isTls, wrong) }));
}

function readHost(
  text: string,
  isTls: boolean,
  wrong: Wrong,
): Pick<RabbitHost, 'hostname' | 'port'> {
  const match = HOST.exec(text.trim());
  if (!match) throw wrong('one of whose hosts is none', `${EXAMPLE} ${ESCAPING}`);
  const port = match[3] === undefined ? (isTls ? 5671 : 5672) : Number(match[3]);
  if (port < 1 || port > 65_535) throw wrong(`whose port ${port} is none`);
  return { hostname: match[1] ?? (match[2] || 'localhost'), port };
}

function decoded(text: string, wrong: Wrong): string {
  try {
    return decodeURIComponent(text);
  } catch {
    throw wrong('which is not percent-encoded as it should be', ESCAPING);
  }
}

const PARAMETERS: readonly string[] = [
  'heartbeat',
  'connection_timeout',
  'verify',
  'cacertfile',
  'certfile',
  'keyfile',
  'server_name_indication',
];

type QueryPart = Omit<
  RabbitHost,
  'isTls' | 'hostname' | 'port' | 'username' | 'password' | 'vhost'
>;

/** The parameters are those of RabbitMQ's own URI specification. */
function readQuery(query: URLSearchParams, wrong: Wrong): QueryPart {
  for (const key of query.keys()) {
    if (!PARAMETERS.includes(key))
      throw wrong(`whose parameter \`${key}\` is unknown`, `Known are ${PARAMETERS.join(', ')}.`);
  }
  if ((query.get('verify') ?? 'verify_peer') !== 'verify_peer') {
    throw wrong(
      'which turns the verification of the server off',
      'Give the authority of its certificate: ?cacertfile=/path/ca.pem',
    );
  }
  const whole = (key: string, fallback: number, max: number): number => {
    const text = query.get(key);
    if (text === null) return fallback;
    const value = Number(text);
    if (/^\d+$/.test(text) && value >= 1 && value <= max) return value;
    throw wrong(`whose ${key} is ${text}`, `Use a whole number from 1 to ${max}.`);
  };
  return {
    heartbeatSeconds: whole('heartbeat', HEARTBEAT_SECONDS, 3_600),
    connectTimeoutMs: whole('connection_timeout', CONNECT_TIMEOUT_MS, 600_000),
    caFile: query.get('cacertfile'),
    certFile: query.get('certfile'),
    keyFile: query.get('keyfile'),
    serverName: query.get('server_name_indication'),
  };
}
