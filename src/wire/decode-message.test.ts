import { hash } from 'node:crypto';
import { deflateSync, inflateSync } from 'node:zlib';
import * as zlib from 'node:zlib';
import { describe, expect, it } from 'vitest';
import {
  bodyOf,
  CELERY_52,
  CELERY_56,
  celeryMessage,
  type CeleryMessage,
} from '../../test/support/celery-vectors.ts';
import type { BuryItem } from '../ledger/ledger.ts';
import { undecodable } from '../ledger/undecodable.ts';
import { digestOf, isIntact } from '../task/digest.ts';
import type { Envelope, EnvelopeOptions } from '../task/envelope.ts';
import { decodeBody } from '../task/input.ts';
import { toBytes, toText } from '../task/json.ts';
import { decodeMessage } from './decode-message.ts';
import { encodeMessage } from './encode-message.ts';
import type { IncomingMessage, UndecodableMessage } from './message.ts';

const QUEUE = 'celery';

function incoming(message: CeleryMessage): IncomingMessage {
  const { properties } = message;
  return {
    headers: message.headers,
    properties: {
      contentType: properties['content_type'],
      contentEncoding: properties['content_encoding'],
      priority: properties['priority'],
      correlationId: properties['correlation_id'],
      replyTo: properties['reply_to'],
    },
    body: bodyOf(message),
    queue: QUEUE,
  };
}

function read(message: IncomingMessage): Envelope {
  const decoded = decodeMessage(message);
  if ('raw' in decoded) throw new Error(decoded.why);
  return decoded;
}

function unread(message: IncomingMessage): UndecodableMessage {
  const decoded = decodeMessage(message);
  if (!('raw' in decoded)) throw new Error('it was read');
  return decoded;
}

const optionsOf = (envelope: Envelope): EnvelopeOptions =>
  JSON.parse(toText(envelope.options)) as EnvelopeOptions;
const vector = (name: string, vectors = CELERY_52): Envelope =>
  read(incoming(celeryMessage(name, vectors)));

const UNREADABLE = [
  'serializer-pickle',
  'serializer-yaml',
  'compression-bzip2',
  'protocol-1',
] as const;
const isTask = (message: CeleryMessage): boolean => 'task' in message.headers;

describe.each([
  ['5.2', CELERY_52],
  ['5.6', CELERY_56],
])('a message of Celery %s', (_, vectors) => {
  const readable = vectors.filter(({ name }) => !(UNREADABLE as readonly string[]).includes(name));

  it.each(readable)('is read: $name', ({ messages }) => {
    for (const message of messages.filter(isTask)) {
      const envelope = read(incoming(message));
      expect(envelope).toMatchObject({
        id: message.headers['id'],
        name: message.headers['task'],
        queue: QUEUE,
        priority: message.properties['priority'],
        version: 1,
      });
      expect(envelope.digest).toBe(digestOf(envelope));
      // `numbers` holds NaN, which is not JSON: the run reports that, under the task's own id.
      if (message.body !== undefined) expect(toText(envelope.body)).toBe(message.body);
    }
  });
});

describe('the headers of a Celery message', () => {
  it('set its eta, rounded up to the millisecond', () => {
    expect(vector('eta-utc').etaMs).toBe(Date.UTC(2030, 0, 2, 3, 4, 5, 679));
    expect(vector('eta-offset').etaMs).toBe(Date.UTC(2030, 0, 1, 21, 34, 5, 679));
    expect(vector('eta-naive').etaMs).toBe(Date.UTC(2030, 0, 2, 3, 4, 5, 679));
    expect(vector('eta-utc-no-microseconds').etaMs).toBe(Date.UTC(2030, 0, 2, 3, 4, 5));
    expect(vector('expires-datetime').expiresMs).toBe(Date.UTC(2030, 0, 2, 3, 4, 5, 678));
    expect(vector('plain')).toMatchObject({ etaMs: null, expiresMs: null });
  });

  it('become the options of an envelope', () => {
    expect(optionsOf(vector('time-limits'))).toMatchObject({
      timeoutMs: 20_000,
      softTimeoutMs: 10_000,
    });
    expect(optionsOf(vector('shadow'))).toMatchObject({ shadow: 'pretty.name' });
    expect(optionsOf(vector('ignore-result'))).toMatchObject({ keepResult: false });
    expect(optionsOf(vector('root-parent-group-ids'))).toMatchObject({
      rootId: '00000000-0000-4000-8000-00000000000a',
      parentId: '00000000-0000-4000-8000-00000000000b',
      groupId: '00000000-0000-4000-8000-00000000000c',
      groupIndex: 3,
    });
    expect(optionsOf(vector('plain'))).toEqual({ replyTo: 'e2d86181-f4ef-3475-9d44-a0ea15ab09ae' });
  });

  it('leaves out trace headers that may not travel, however large they are', () => {
    const broken = { tracestate: 'x'.repeat(100_000), baggage: 'a=\u0000', 'sentry-trace': 7 };
    const plain = incoming(celeryMessage('plain'));
    const nested = { ...broken, region: 'eu' };
    const headers = { ...(plain.headers as object), ...broken, headers: nested };
    expect(optionsOf(read({ ...plain, headers })).headers).toEqual({
      region: 'eu',
      'sentry-trace': '7',
    });
  });

  it('of the user reach the handler as strings', () => {
    expect(optionsOf(vector('custom-headers')).headers).toEqual({
      tenant: 'acme',
      traceparent: '00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01',
      n: '7',
      big: '1099511627776',
      nested: '{"k":[1,"two",null,1.25,true]}',
    });
  });

  it('may contain a nested table, as Sentry writes it', () => {
    const plain = incoming(celeryMessage('plain'));
    const nested = { 'sentry-trace': 'a-b-1', id: 'not the id' };
    const headers = { ...(plain.headers as object), 'sentry-trace': 'a-b-1', headers: nested };
    expect(optionsOf(read({ ...plain, headers })).headers).toEqual(nested);
  });

  it('of a newer Celery release are ignored', () => {
    expect(optionsOf(vector('plain', CELERY_56)).headers).toBeUndefined();
  });

  it('may contain a deadline, or a header of the user with that name', () => {
    const plain = incoming(celeryMessage('plain'));
    const withDeadline = (deadline: unknown): EnvelopeOptions =>
      optionsOf(read({ ...plain, headers: { ...(plain.headers as object), deadline } }));
    const deadlineMs = Date.UTC(2030, 0, 2, 3, 4, 5);
    expect(withDeadline('2030-01-02T03:04:05Z')).toMatchObject({ deadlineMs });
    expect(withDeadline('friday').headers).toEqual({ deadline: 'friday' });
    expect(withDeadline(7).headers).toEqual({ deadline: '7' });
  });

  it('that RabbitMQ and a retrying worker add do not reach the handler', () => {
    const plain = incoming(celeryMessage('plain'));
    const headers = {
      ...(plain.headers as object),
      'x-death': [{ count: 1 }],
      'x-delivery-count': 2,
    };
    expect(optionsOf(read({ ...plain, headers })).headers).toBeUndefined();
  });
});

describe('the body of a Celery message', () => {
  it('keeps integers beyond the range of a double', () => {
    const { headers, properties, queue } = incoming(celeryMessage('plain'));
    const body = toBytes('[[9007199254740993, 1180591620717411303424], {}, {}]');
    const envelope = read({ headers, properties, queue, body });
    expect(envelope.body).toBe(body);
    expect(decodeBody(envelope.body).args).toEqual([9007199254740993n, 2n ** 70n]);
  });

  it('is decompressed', () => {
    expect(decodeBody(vector('compression-gzip').body).args).toEqual([2, 3]);
  });
});

const plainMessage = (): IncomingMessage => incoming(celeryMessage('plain'));
const withHeader = (changed: object): IncomingMessage => ({
  ...plainMessage(),
  headers: { ...(plainMessage().headers as object), ...changed },
});

describe('a message that Celery accepts', () => {
  it.each(['an id with spaces', 'x'.repeat(255), 'žluťoučký 🐎'])('may have the id %s', id => {
    expect(decodeMessage(withHeader({ id }))).toMatchObject({ id });
  });

  it('may be compressed as anything that Node inflates', () => {
    const { zstdCompressSync } = zlib as { zstdCompressSync?: (bytes: Uint8Array) => Uint8Array };
    const { body } = plainMessage();
    const ways = [
      ['application/x-gzip', zlib.deflateSync(body)],
      ['application/x-brotli', zlib.brotliCompressSync(body)],
      ...(zstdCompressSync ? ([['application/zstd', zstdCompressSync(body)]] as const) : []),
    ] as const;
    for (const [compression, bytes] of ways) {
      const decoded = decodeMessage({ ...withHeader({ compression }), body: bytes });
      expect(Buffer.compare((decoded as Envelope).body, body)).toBe(0);
    }
    const bomb = zlib.brotliCompressSync(Buffer.alloc(100_000));
    const message = { ...withHeader({ compression: 'application/x-brotli' }), body: bomb };
    expect(decodeMessage(message, 10_000)).toMatchObject({ reason: 'ERR_MESSAGE_TOO_LARGE' });
  });
});

describe('the caller of a message that cannot be run', () => {
  const refused = (properties: object, headers: object = {}) =>
    unread({
      ...withHeader({ id: 'an id', ...headers }),
      properties: { contentType: 'application/x-python-serialize', ...properties },
    }).asker;

  it('is known by its id and its queue, where it waits for an answer', () => {
    const replyTo = 'callers';
    const known = { id: 'an id', correlationId: 'an id' };
    expect(refused({})).toEqual(known);
    expect(refused({ replyTo, correlationId: 'c' })).toEqual({
      ...known,
      replyTo,
      correlationId: 'c',
    });
    expect(refused({ replyTo }, { ignore_result: true })).toBeUndefined();
    expect(refused({ replyTo }, { id: 'a\0b' })).toBeUndefined();
    expect(refused({ replyTo: 7 })).toEqual(known);
  });
});

describe('a message that cannot be run', () => {
  it.each(UNREADABLE)('is undecodable and keeps its bytes: %s', name => {
    const message = incoming(celeryMessage(name));
    const { raw, queue, why, reason } = unread(message);
    expect({ raw, queue, reason }).toEqual({
      raw: message.body,
      queue: QUEUE,
      reason: 'ERR_UNDECODABLE',
    });
    expect(why).toMatch(/content type|protocol 1|compressed/);
  });

  it.each<[string, IncomingMessage, string]>([
    ['has no id', withHeader({ id: null }), 'no `id` header'],
    ['has an id that is not a string', withHeader({ id: 7 }), 'no `id` header'],
    ['has a hostile id', withHeader({ id: 'a\nb' }), 'its id'],
    ['has an id that AMQP has no room for', withHeader({ id: 'ž'.repeat(128) }), '255 bytes'],
    ['has a hostile name', withHeader({ task: '\u0000' }), 'not allowed'],
    ['has no headers', { ...plainMessage(), headers: undefined }, 'no headers'],
    ['has an invalid eta', withHeader({ eta: 'soon' }), '`eta` is soon'],
    ['has an eta of another type', withHeader({ eta: 5 }), '`eta` is 5'],
    ['has a day that does not exist', withHeader({ expires: '2030-02-30T00:00:00' }), '`expires`'],
    ['has limits of another type', withHeader({ timelimit: ['1s'] }), '`timelimit`'],
    ['has a version of another type', withHeader({ 'outlast-schema': '2' }), '`outlast-schema`'],
    [
      'is in another encoding',
      {
        ...plainMessage(),
        properties: { ...plainMessage().properties, contentEncoding: 'binary' },
      },
      'encoding',
    ],
    ['is not UTF-8', { ...plainMessage(), body: Uint8Array.from([0x5b, 0xff, 0x5d]) }, 'UTF-8'],
    [
      'is not an array',
      { ...plainMessage(), body: toBytes('{"args":[]}') },
      '[args, kwargs, embed]',
    ],
    ['is empty', { ...plainMessage(), body: new Uint8Array() }, '[args, kwargs, embed]'],
    ['has gigantic headers', withHeader({ big: 'x'.repeat(70_000) }), 'larger than 65536'],
    [
      'has many headers',
      withHeader(Object.fromEntries(Array.from({ length: 9_000 }, (_, n) => [`header-${n}`, 'x']))),
      'larger than',
    ],
    [
      'has a key `__proto__`',
      { ...plainMessage(), headers: JSON.parse('{"task":"a","id":"b","__proto__":{}}') as object },
      '__proto__',
    ],
    [
      'had a key `__proto__` before its client read it',
      { ...plainMessage(), headers: Object.setPrototypeOf({ task: 'a' }, { id: 'b' }) as object },
      '__proto__',
    ],
    [
      'has a nested key `__proto__`',
      withHeader({ headers: JSON.parse('{"__proto__":"x"}') as object }),
      '__proto__',
    ],
    ['is not compressed as its header says', withHeader({ compression: 'application/x-gzip' }), ''],
  ])('%s', (_, message, why) => {
    const decoded = unread(message);
    expect(decoded.why).toContain(why);
    expect(decoded.raw).toBe(message.body);
  });

  it.each(['outlast-tenant', 'outlast-idempotency-key'])(
    'has a %s that no store can hold',
    name => {
      expect(unread(withHeader({ [name]: 'a\0b' })).why).toContain(name);
    },
  );

  it.each(['{"key":"a\\u0000b","concurrency":1}', '{"concurrency":1e9}', '{"concurrency":"x"}'])(
    'is not one with invalid limits: %s is ignored',
    admission => {
      const message = withHeader({ 'outlast-admission': admission });
      expect(optionsOf(read(message)).admission).toBeUndefined();
    },
  );

  it('keeps its name and headers, in strings of bounded length', () => {
    const { name, headers } = unread(withHeader({ id: null, big: 'x'.repeat(70_000) }));
    expect(name).toBe('interop.add');
    expect(headers).toMatchObject({ task: 'interop.add', origin: 'gen1@host' });
    expect(headers?.['big']).toHaveLength(500);
  });
});

describe('redacted arguments', () => {
  const [args, kwargs] = ['["***"]', `{"note":"${'x'.repeat(2_000)}"}`];
  const redacted = { args, kwargs };
  const body = toBytes('[["secret"], {}, {}]');
  const envelope: Envelope = {
    ...vector('plain'),
    body,
    options: toBytes(JSON.stringify({ redacted })),
    digest: digestOf({ ...vector('plain'), body }),
  };
  const sent = encodeMessage(envelope, 'gen1@host');

  it('stay hidden after decoding, also when the redacted copy was too long to send', () => {
    expect(optionsOf(read({ ...sent, queue: QUEUE })).redacted).toEqual({
      args,
      kwargs: '"[hidden]"',
    });
  });

  it('stay hidden when a Python worker has sent the task again', () => {
    const headers = { ...sent.headers, lang: 'py', argsrepr: '["secret"]' };
    expect(optionsOf(read({ ...sent, headers, queue: QUEUE })).redacted).toEqual({
      args: '"[hidden]"',
      kwargs: '"[hidden]"',
    });
  });
});

describe('a digest', () => {
  const body = toBytes('[[1], {}, {}]');
  const envelope: Envelope = {
    id: 'a',
    name: 'b',
    queue: QUEUE,
    priority: 0,
    version: 1,
    body,
    options: toBytes('{}'),
    digest: digestOf({ id: 'a', name: 'b', version: 1, body }),
    etaMs: null,
    expiresMs: null,
  };
  const sent = encodeMessage(envelope, 'gen1@host');
  const changed = toBytes('[[2], {}, {}]');

  it('that does not match means changed bytes', () => {
    const { reason, raw } = unread({ ...sent, body: changed, queue: QUEUE });
    expect(reason).toBe('ERR_DIGEST');
    expect(raw).toBe(changed);
    expect(unread({ ...sent, headers: { ...sent.headers, id: 'c' }, queue: QUEUE }).reason).toBe(
      'ERR_DIGEST',
    );
  });

  it('is not checked when another language has sent the task again', () => {
    const headers = { ...sent.headers, lang: 'py' };
    expect(read({ ...sent, headers, body: changed, queue: QUEUE }).digest).toBe(
      digestOf({ ...envelope, body: changed }),
    );
  });
});

describe('a message that is too large', () => {
  const plain = toBytes(`[[],{"a":"${'x'.repeat(99_970)}"},null]`);
  const bomb = deflateSync(toBytes(`[[],{"a":"${'x'.repeat(9_000_000)}"},null]`));
  const gzip = { compression: 'application/x-gzip' };
  const of = (body: Uint8Array, headers: object = {}): IncomingMessage => ({
    headers: { task: 'shop.order', id: 'a', ...headers },
    properties: { contentType: 'application/json', contentEncoding: 'utf-8' },
    body,
    queue: QUEUE,
  });

  it.each([
    ['as received', of(plain), plain.length - 1],
    ['inflated', of(bomb, gzip), 1_000_000],
    ['in its headers', of(toBytes('[[],{},null]'), { shadow: 'x'.repeat(300_000) }), 1_000_000],
  ])('%s is truncated, with its size and its digest', (_, message, maxBytes) => {
    const cut = decodeMessage(message, maxBytes) as UndecodableMessage;
    expect(cut).toMatchObject({
      reason: 'ERR_MESSAGE_TOO_LARGE',
      name: 'shop.order',
      cut: { bytes: message.body.length, sha256: hash('sha256', message.body) },
      why: expect.stringMatching(/cannot be brought back/) as string,
    });
    expect(cut.raw).toEqual(new Uint8Array(message.body.subarray(0, 4_096)));
    expect(cut.raw.buffer.byteLength).toBeLessThanOrEqual(4_096);
    expect(JSON.stringify(cut.headers).length).toBeLessThan(2_000);
  });

  it('is larger than the limit; one of exactly that size is read', () => {
    expect(decodeMessage(of(plain), plain.length)).toMatchObject({ id: 'a' });
    const inflated = inflateSync(bomb).length;
    expect(decodeMessage(of(bomb, gzip), inflated)).toMatchObject({ id: 'a' });
  });

  it('becomes the same dead letter each time it is delivered, and other bytes become another one', () => {
    const letterOf = (message: IncomingMessage) => {
      const item = undecodable(decodeMessage(message, 1_000) as UndecodableMessage, null);
      return (item as Extract<BuryItem, { kind: 'message' }>).envelope;
    };
    const other = Buffer.from(plain);
    other[90_000] = 0x79;
    expect(letterOf(of(plain)).id).toBe(letterOf(of(plain)).id);
    expect(letterOf(of(other)).id).not.toBe(letterOf(of(plain)).id);
    expect(optionsOf(letterOf(of(plain))).cut?.bytes).toBe(plain.length);
    // The remaining bytes do not run, even if the letter is revived.
    expect(isIntact(letterOf(of(plain)))).toBe(false);
  });
});

describe('a message that would take long to parse', () => {
  it.each([
    ['a number of 16 million digits', `[[],{"n":${'9'.repeat(16_000_000)}},null]`, 'digits'],
    ['lists in lists', `[[${'['.repeat(400_000)}${']'.repeat(400_000)}],{},null]`, 'nested'],
    [
      'groups in groups',
      `[[],{},{"callbacks":[${'{"task":"celery.group","kwargs":{"tasks":['.repeat(20_000)}${']}}'.repeat(20_000)}]}]`,
      'nested',
    ],
  ])(
    'because of %s is refused without being parsed, also when it claims to be ours',
    (_, text, why) => {
      const body = toBytes(text);
      for (const lang of ['py', 'js']) {
        const digest = digestOf({ name: 'shop.order', id: 'a', version: 1, body });
        const headers = { task: 'shop.order', id: 'a', lang, 'outlast-digest': digest };
        const properties = { contentType: 'application/json', contentEncoding: 'utf-8' };
        expect(unread({ headers, properties, body, queue: QUEUE })).toMatchObject({
          reason: 'ERR_UNDECODABLE',
          why: expect.stringContaining(why) as string,
        });
      }
    },
  );
});
