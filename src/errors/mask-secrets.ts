/**
 * The only code that decides what people may see of a URL or an error text. It masks by position: wherever a secret may
 * stand, the text is masked, and a URL whose positions are unclear is masked whole. Nothing here knows what a password
 * looks like.
 */
const MASK = '***';

/** Their `@` belongs to a path: `file:///app/node_modules/@scope/x.js` in every stack. They carry no secrets of ours. */
const NO_SECRETS: ReadonlySet<string> = new Set(['file', 'node', 'webpack', 'data', 'blob']);
/** Other people's URLs in error texts: their paths and queries are needed to understand the error. */
const WEB: ReadonlySet<string> = new Set(['http', 'https', 'ws', 'wss']);
/** People put a Redis password in the position of the user. */
const USER_MAY_BE_SECRET = /^(rediss?|sentinel)(\+|$)/i;

const SCHEME = /^([a-z][a-z0-9+.-]*):\/\/(.*)$/is;
const FOLDER = /^pglite:(?!\/\/[^/]*@)/i;
/** `redis://a;redis://b`, as kombu joins them. */
const JOINT = /;(?=[a-z][a-z0-9+.-]*:\/\/)/i;
const HOSTS =
  /^(?:(?:\[[0-9a-f:.%]+\]|[\w.~%-]*)(?::\d{1,5})?)(?:,(?:\[[0-9a-f:.%]+\]|[\w.~%-]*)(?::\d{1,5})?)*$/i;
const PATH = /^[\w.~%$+/-]*$/;
/** With an `@` for names like `app@server`. */
const USER = /^[\w.~%+*@-]*$/;

/**
 * The URL with its secrets masked, also when it is no URL at all.
 *
 * @example
 * maskUrl('postgres://app:hunter2@db/shop'); // 'postgres://app:***@db/shop'
 */
export function maskUrl(url: string): string {
  if (FOLDER.test(url)) return url;
  const parts = url.split(JOINT).map(maskOne);
  if (!parts.includes(null)) return parts.join(';');
  const scheme = SCHEME.exec(url)?.[1];
  return scheme === undefined ? MASK : `${scheme}://${MASK}`;
}

/** Null: its positions are unclear. */
function maskOne(url: string): string | null {
  const [, scheme = '', rest = ''] = SCHEME.exec(url) ?? [];
  if (scheme === '') return null;
  if (WEB.has(scheme.toLowerCase())) return maskWebUrl(url);
  // Whatever stands before the last `@` is user and password: one of them may hold an unescaped `/`, `?`, `#` or `@`.
  const at = rest.lastIndexOf('@');
  const who = at === -1 ? '' : `${maskUser(scheme, rest.slice(0, at))}@`;
  const [, hosts = '', path = '', query, fragment] =
    /^([^/?#]*)([^?#]*)(?:\?([^#]*))?(?:#(.*))?$/s.exec(rest.slice(at + 1)) ?? [];
  if (!HOSTS.test(hosts) || !PATH.test(path)) return null;
  const asked = query === undefined ? '' : `?${maskQuery(query)}`;
  return `${scheme}://${who}${hosts}${path}${asked}${fragment === undefined ? '' : `#${MASK}`}`;
}

function maskUser(scheme: string, userInfo: string): string {
  const colon = userInfo.indexOf(':');
  const user = colon === -1 ? userInfo : userInfo.slice(0, colon);
  const isRedis = USER_MAY_BE_SECRET.test(scheme);
  const isShown = USER.test(user) && !(isRedis && (colon === -1 || user.includes('@')));
  const shown = isShown ? user : MASK;
  return colon === -1 ? shown : `${shown}:${MASK}`;
}

/** Parameters of the stores that hold no secret. All others are masked, whatever their name. */
const SHOWN_PARAMETERS: ReadonlySet<string> = new Set(
  `application_name cacertfile certfile channel_binding charset client_encoding connect_timeout connectionlimit
  connection_timeout connecttimeout db family fallback_application_name gssencmode heartbeat host hostaddr
  idle_in_transaction_session_timeout keepalives keepalives_idle load_balance_hosts lock_timeout master_name options port
  query_timeout replication require_auth search_path server_name_indication sslcert ssl_ca_certs ssl_cert_reqs
  ssl_certfile sslmode sslnegotiation sslrootcert statement_timeout target_session_attrs timezone uselibpqcompat user
  username verify virtual_host`.split(/\s+/),
);
const PLAIN_VALUE = /^[\w.~%/:,+@-]{0,256}$/;
const PLAIN_NAME = /^[\w.-]{1,64}$/;

function maskQuery(query: string): string {
  return query.replaceAll(/[^&;]+/g, pair => {
    const [, name = '', value = ''] = /^([^=]*)=(.*)$/s.exec(pair) ?? [];
    if (!PLAIN_NAME.test(name)) return MASK;
    const isShown =
      value === 'true' ||
      value === 'false' ||
      (SHOWN_PARAMETERS.has(name.toLowerCase()) && PLAIN_VALUE.test(value));
    return `${name}=${isShown ? value : MASK}`;
  });
}

const WEB_USER = /^([a-z]+:\/\/)[^/?#]*@/i;
const WEB_PARAMETER = /([?&;#])([^=?&;#\s]*)=([^&;#\s]*)/g;
const SECRET_NAME = /pass|pwd|secret|token|key|auth|cred|sig|session|code/i;

function maskWebUrl(url: string): string {
  return url
    .replace(WEB_USER, `$1${MASK}@`)
    .replaceAll(WEB_PARAMETER, (all, before: string, name: string) =>
      SECRET_NAME.test(name) ? `${before}${name}=${MASK}` : all,
    );
}

// Every pattern here takes linear time: error texts quote messages, and any sender may write those.
const URL_IN_TEXT = /\b([a-z][a-z0-9+.-]{0,31}):\/\/[^\s"'`<>]*/gi;
const UNFINISHED = /[={[(:,\\]$/;
const QUOTE = /["'`<>]/;
const BLANK = /\s/g;
const PUNCTUATION = /[)\]}.,:;!?]{1,8}$/;
/** libpq's `password=…`, and what JSON and inspected objects hold: `"passphrase":"…"`, `password: '…'`. */
const NAMED_SECRET =
  /((?:pass(?:word|wd|phrase)?|pwd|secret|token)[\\"']{0,4}\s{0,8}(?:=\s{0,8}|:\s{0,8}(?=\\{0,3}["'])))(\\{0,3}"[^"\n]*"?|\\{0,3}'[^'\n]*'?|[^\s"',;&})\]]+)/gi;

/** A key or certificate, to its end or that of the text. */
const PEM = /-----BEGIN .*?(?:-----END [A-Z ]{1,64}-----|$)/gs;

/** A text with the secrets of every URL in it masked, for logs, errors and reports. */
export function maskSecrets(text: string): string {
  const named = /pass|pwd|secret|token/i.test(text)
    ? text.replaceAll(NAMED_SECRET, (_all, name: string, value: string) => {
        const quote = /^\\*["']/.exec(value)?.[0] ?? '';
        return `${name}${quote}${MASK}${quote}`;
      })
    : text;
  const keyless = named.replaceAll(PEM, MASK);
  return keyless.includes('://') ? maskUrlsIn(keyless) : keyless;
}

function maskUrlsIn(text: string): string {
  const lastAt = lastAtOfLines(text);
  let masked = '';
  let from = 0;
  for (const match of text.matchAll(URL_IN_TEXT)) {
    const [found, scheme = ''] = match;
    if (match.index < from || NO_SECRETS.has(scheme.toLowerCase())) continue;
    const end = match.index + found.length;
    // Cut off by a quote in the middle of a value: `?ssl={"passphrase":…`.
    const isCut = UNFINISHED.test(found) && QUOTE.test(text.charAt(end));
    const url = isCut ? found : found.replace(PUNCTUATION, '');
    const shown = maskUrl(url);
    masked += `${text.slice(from, match.index)}${shown}`;
    from = isCut ? endOfWord(text, end) : match.index + url.length;
    if (!shown.endsWith(`//${MASK}`)) continue;
    // No well-formed URL: a password with a blank or a quote in it may go on, up to an `@` of the same line.
    const at = lastAt(from);
    if (at >= from) from = endOfWord(text, at);
  }
  return masked + text.slice(from);
}

function endOfWord(text: string, position: number): number {
  BLANK.lastIndex = position;
  return BLANK.exec(text)?.index ?? text.length;
}

/** The index of the last `@` on the line of a position; positions only grow, so every line is searched once. */
function lastAtOfLines(text: string): (position: number) => number {
  let end = -1;
  let at = -1;
  return position => {
    if (position > end) {
      const next = text.indexOf('\n', position);
      end = next === -1 ? text.length : next;
      at = text.lastIndexOf('@', end);
    }
    return at;
  };
}

/**
 * Whether an `@` stands behind the host, so that a `/`, `?` or `#` before it may be part of a password: a driver would
 * take a piece of the password for a host or a database, and name it in its errors.
 */
export function hasMisplacedAt(url: string): boolean {
  return url.split(JOINT).some(part => {
    const rest = SCHEME.exec(part)?.[2] ?? '';
    const [, hosts = '', path = '', query = '', fragment = ''] =
      /^([^/?#]*)([^?#]*)(?:\?([^#]*))?(?:#(.*))?$/s.exec(rest) ?? [];
    const inQuery = !hosts.includes('@') && query.split(/[&;]/).some(pair => /^[^=]*@/.test(pair));
    return path.includes('@') || fragment.includes('@') || inQuery;
  });
}
