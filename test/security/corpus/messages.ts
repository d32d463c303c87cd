import { deflateSync } from 'node:zlib';

/** A message of an attacker. */
export interface HostileMessage {
  readonly headers: Readonly<Record<string, unknown>>;
  readonly body: Buffer;
  readonly contentType?: string;
  readonly contentEncoding?: string;
}

/**
 * The expected end: its task runs as any other, it is a dead letter for this reason, or it waits, for its time or for a
 * worker that can run it.
 */
export type Fate = 'runs' | 'waits' | `ERR_${string}`;

export interface HostileCase {
  readonly message: HostileMessage;
  readonly fate: Fate;
}

const json = (text: string): Buffer => Buffer.from(text);
/** A body like any other. */
export const GOOD = json('[[],{},{"callbacks":null,"errbacks":null,"chain":null,"chord":null}]');
const gzip = { compression: 'application/x-gzip' };
const nested = (depth: number, before = ''): Buffer =>
  json(`[[${before}${'['.repeat(depth)}${']'.repeat(depth)}],{},null]`);

type Parts = Omit<Partial<HostileMessage>, 'headers'> & { readonly headers?: object };
type Make = (name: string, id: string) => HostileCase;

const given =
  (fate: Fate, parts: Parts = {}): Make =>
  (task, id) => ({
    fate,
    message: { body: GOOD, ...parts, headers: { lang: 'py', task, id, ...parts.headers } },
  });
const withHeaders = (fate: Fate, headers: object): Make => given(fate, { headers });
const withBody = (fate: Fate, text: string): Make => given(fate, { body: json(text) });

const DEAD = 'ERR_UNDECODABLE';

/** Messages that try to change objects, run code, leave a folder, forge log lines or break their readers. */
export const HOSTILE: Readonly<Record<string, Make>> = {
  // Prototypes
  'a prototype in the arguments': withBody(
    'runs',
    '[[],{"__proto__":{"polluted":"yes"},"constructor":{"prototype":{"polluted":"yes"}}},null]',
  ),
  'a prototype beside a large integer': withBody(
    'runs',
    '[[],{"n":12345678901234567890,"__proto__":{"polluted":"yes"}},null]',
  ),
  'a prototype in the headers': withHeaders(DEAD, {
    headers: JSON.parse(
      '{"__proto__":{"polluted":1},"toString":"y","hasOwnProperty":"z"}',
    ) as object,
  }),
  'a prototype in the options of a link': withBody(
    'runs',
    '[[],{},{"callbacks":[{"task":"hostile.link","kwargs":{},"args":[],"options":{"__proto__":{"queue":"x"}}}]}]',
  ),
  'a task called __proto__': (_, id) => given('waits')('__proto__', id),
  'a task called constructor': (_, id) => given('waits')('constructor', id),
  // Code
  'a pickle': given(DEAD, {
    body: Buffer.from("cos\nsystem\n(S'true'\ntR."),
    contentType: 'application/x-python-serialize',
    contentEncoding: 'binary',
  }),
  'a function in YAML': given(DEAD, {
    body: json('!!js/function "x"'),
    contentType: 'application/x-yaml',
  }),
  // Names
  'an id with a line feed': (task, id) => given(DEAD)(task, `${id}\nlevel=error`),
  'an id of 200 characters': (task, id) => given('runs')(task, id.padEnd(200, 'x')),
  'an id of 300 characters': (task, id) => given(DEAD)(task, id.padEnd(300, 'x')),
  'an id that climbs folders': (task, id) => given('runs')(task, `../../../../${id}`),
  'a name with a line feed': (task, id) => given(DEAD)(`${task}\nERROR forged`, id),
  'a name of 5000 characters': (_, id) => given(DEAD)('n'.repeat(5_000), id),
  // Times and limits
  'an eta that is a number': withHeaders(DEAD, { eta: 12_345 }),
  'an eta at the end of time': withHeaders('waits', { eta: '9999-12-31T23:59:59+00:00' }),
  'an eta beyond what a date holds': withHeaders(DEAD, { eta: '275761-01-01T00:00:00+00:00' }),
  'an eta before the common era': withHeaders('runs', { eta: '0001-01-01T00:00:00+23:59' }),
  'time limits that are a text': withHeaders(DEAD, { timelimit: 'x' }),
  'time limits without end': withHeaders('runs', { timelimit: [1e300, 1e300] }),
  // Headers of other types
  'roots and groups that are no texts': withHeaders('runs', {
    root_id: { a: 1 },
    parent_id: [1],
    group: 5,
    group_index: 'x',
  }),
  'a root that forges a log line': withHeaders('runs', {
    root_id: 'a\nlevel=error',
    parent_id: '\u001b[31mred\u0000',
  }),
  'a shadow that clears the screen': withHeaders('runs', {
    shadow: 'x\n{"level":"error"}\u001b[2J',
  }),
  // In a form that amqplib still sends.
  'a header of 100 kB': withHeaders(DEAD, { big: Array(20_000).fill(true) }),
  'a thousand headers': withHeaders(
    'runs',
    Object.fromEntries(Array.from({ length: 1_000 }, (_, index) => [`h${index}`, 'v'])),
  ),
  'a death of long ago': withHeaders('runs', { 'x-death': [{ count: 1e9, queue: 'a' }] }),
  'redacted copies that are no JSON': withHeaders('runs', {
    'outlast-redacted': true,
    argsrepr: 'not json',
    kwargsrepr: '{}',
  }),
  'a digest of something else': withHeaders('ERR_DIGEST', {
    lang: 'js',
    'outlast-digest': 'deadbeef',
  }),
  'a digest that is no text': withHeaders('ERR_DIGEST', { lang: 'js', 'outlast-digest': { a: 1 } }),
  'a version below the first': withHeaders(DEAD, { 'outlast-schema': -1 }),
  'a version of the future': withHeaders('waits', { 'outlast-schema': 999 }),
  'a tenant with a NUL': withHeaders(DEAD, { 'outlast-tenant': 'a\u0000b' }),
  'a tenant in the signs of Redis': withHeaders('runs', { 'outlast-tenant': '}{a}{*?[x]' }),
  'limits for __proto__': withHeaders('runs', {
    'outlast-admission': '{"key":"__proto__","concurrency":1,"x":{}}',
  }),
  'an idempotency key with a line feed': withHeaders(DEAD, { 'outlast-idempotency-key': 'a\nb' }),
  // Bodies
  'bytes that are no UTF-8': given(DEAD, { body: Buffer.from([0x5b, 0xff, 0xfe, 0x5d]) }),
  'a body in UTF-16': given(DEAD, { contentEncoding: 'utf-16' }),
  'a body that is no list': withBody(DEAD, '{"a":1}'),
  'lists in lists': given(DEAD, { body: nested(50_000) }),
  'lists in lists beside a large integer': given(DEAD, {
    body: nested(50_000, '1234567890123456789,'),
  }),
  'an unknown compression': withHeaders(DEAD, { compression: 'application/x-bzip2' }),
  'a compression that breaks off': given(DEAD, {
    headers: gzip,
    body: deflateSync(GOOD).subarray(0, 8),
  }),
  'a link that is a number': withBody(DEAD, '[[],{},{"callbacks":[1,2,"x"],"chain":{"a":1}}]'),
  'follow-ups that are a text': withBody(DEAD, '[[],{},"x"]'),
  'a link in 1e300 seconds': withBody(
    DEAD,
    '[[],{},{"callbacks":[{"task":"hostile.link","options":{"countdown":1e300}}]}]',
  ),
  'a link with a line feed in its name': withBody(
    DEAD,
    '[[],{},{"callbacks":[{"task":"hostile\\nlink"}]}]',
  ),
  'a chord of 99999999999 parts': given(DEAD, {
    headers: { group: 'g'.repeat(300), group_index: 2 ** 53 },
    body: json('[[],{},{"chord":{"task":"hostile.link","chord_size":99999999999,"options":{}}}]'),
  }),
  // What takes long
  'a number of a million digits': withBody(DEAD, `[[],{"n":${'9'.repeat(1_000_000)}},null]`),
  'groups in groups': withBody(
    DEAD,
    `[[],{},{"callbacks":[${'{"task":"celery.group","kwargs":{"tasks":['.repeat(20_000)}{"task":"x"}${']}}'.repeat(20_000)}]}]`,
  ),
  // What is large
  'a body that inflates to 64 MB': given('ERR_MESSAGE_TOO_LARGE', {
    headers: gzip,
    body: deflateSync(
      Buffer.concat([json('[[],{"a":"'), Buffer.alloc(64_000_000, 0x41), json('"},null]')]),
    ),
  }),
  'an integer that inflates to 64 million digits': given('ERR_MESSAGE_TOO_LARGE', {
    headers: gzip,
    body: deflateSync(
      Buffer.concat([json('[[],{"n":'), Buffer.alloc(64_000_000, 0x39), json('},null]')]),
    ),
  }),
  'a body of 2.1 MB': withBody(
    'ERR_MESSAGE_TOO_LARGE',
    `[[],{"a":"${'x'.repeat(2_100_000)}"},null]`,
  ),
};
