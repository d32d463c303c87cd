import { inspect } from 'node:util';
import { describe, expect, it } from 'vitest';
import { resolveConfig, type OutlastConfig } from '../config/config.ts';
import { decodeMessage } from '../wire/decode-message.ts';
import { encodeMessage } from '../wire/encode-message.ts';
import { digestOf } from './digest.ts';
import type { Envelope, EnvelopeOptions } from './envelope.ts';
import { toBytes } from './json.ts';
import type { Keyring } from './keyring.ts';
import { readOptions } from './read-options.ts';

const SECRET = 'c0ffee'.repeat(8);
const OTHER = Buffer.alloc(32, 7).toString('base64');
const NOW = Date.UTC(2027, 0, 31);
const [MINUTE, HOUR] = [60_000, 3_600_000];

const keyringOf = (keys: readonly string[], config: OutlastConfig = {}): Keyring =>
  resolveConfig({ signingKeys: keys, ...config }).keyring;

/** Every option that is part of a message. */
const FULL: EnvelopeOptions = {
  headers: { user: 'ann', 'x-trace': 'lone \ud800 half', 7: 'seven', __x: '' },
  timeoutMs: 1234.5,
  softTimeoutMs: 30,
  deadlineMs: NOW + 2 * HOUR,
  keepResult: false,
  rootId: 'root',
  parentId: 'parent',
  groupId: 'group',
  groupIndex: 3,
  shadow: 'another name',
  replyTo: '3f1c',
  correlationId: 'other',
  idempotencyKey: 'key',
  tenant: 'acme',
  admission: { key: 'k', concurrency: 2 },
};

function sent(keyring: Keyring, options: EnvelopeOptions = {}, issuedMs = NOW): Envelope {
  const named = { name: 'shop.charge', id: 'one', version: 1, body: toBytes('[[],{},{}]') };
  const digest = digestOf(named);
  const bare = {
    ...named,
    digest,
    queue: 'money',
    priority: 0,
    etaMs: NOW + MINUTE,
    expiresMs: NOW + HOUR,
  };
  const signature = keyring.sign({ ...bare, options }, issuedMs);
  const signed = signature === undefined ? options : { ...options, signature };
  return { ...bare, options: toBytes(JSON.stringify(signed)) };
}

describe('a key', () => {
  const now = keyringOf([`a:${SECRET}`]);

  it('verifies tasks that it has signed', () => {
    expect(now.refusalOf(sent(now))).toBeNull();
    expect(now.refusalOnArrival(sent(now, FULL), NOW)).toBeNull();
  });

  it('refuses unsigned tasks, except on queues that allow their name', () => {
    const bare = sent(keyringOf([]));
    expect(now.refusalOf(bare)).toMatch('not signed');
    const on = (names: readonly string[]): Keyring =>
      keyringOf([`a:${SECRET}`], { unsignedQueues: { money: names } });
    for (const names of [['shop.charge'], ['shop.*'], ['*']])
      expect(on(names).standingOf(bare).kind).toBe('unsigned');
    for (const names of [[], ['shop.'], ['charge'], ['shop.charge2', 'report.*']])
      expect(on(names).refusalOf(bare)).toMatch('does not name shop.charge for money');
    expect(keyringOf([]).refusalOf(sent(now))).toBeNull();
  });

  it('refuses a signature by another secret of the same id, for another audience or for other bytes', () => {
    expect(keyringOf([`a:${OTHER}`]).refusalOf(sent(now))).toMatch('not one of the key a');
    const staging = keyringOf([`a:${SECRET}`], { signingAudience: 'staging' });
    expect(staging.refusalOf(sent(now))).toMatch('not one of the key a');
    expect(staging.refusalOf(sent(staging))).toBeNull();
    const other = { ...sent(now), digest: digestOf({ ...sent(now), id: 'two' }) };
    expect(now.refusalOf(other)).toMatch('not one of the key a');
  });

  it.each<readonly [string, Partial<Envelope> | EnvelopeOptions]>([
    ['queue', { queue: 'other' }],
    ['headers', { headers: { user: 'admin' } }],
    ['an added header', { headers: { ...FULL.headers, role: 'admin' } }],
    ['timeoutMs', { timeoutMs: 1 }],
    ['softTimeoutMs', { softTimeoutMs: 1 }],
    ['deadlineMs', { deadlineMs: NOW }],
    ['keepResult', { keepResult: true }],
    ['rootId', { rootId: 'x' }],
    ['parentId', { parentId: 'x' }],
    ['groupId', { groupId: 'x' }],
    ['groupIndex', { groupIndex: 4 }],
    ['shadow', { shadow: 'x' }],
    ['replyTo', { replyTo: 'attacker' }],
    ['correlationId', { correlationId: 'x' }],
    ['idempotencyKey', { idempotencyKey: 'x' }],
    ['tenant', { tenant: 'umbrella' }],
    ['admission', { admission: { key: 'k', concurrency: 200 } }],
  ])('covers %s', (_, change) => {
    const task = sent(now, FULL);
    const options = { ...readOptions(task), ...('queue' in change ? {} : change) };
    const changed = {
      ...task,
      ...('queue' in change ? change : {}),
      options: toBytes(JSON.stringify(options)),
    };
    expect(now.refusalOf(changed)).toMatch('not one of the key a');
  });

  it('covers eta and expires of a message on its arrival; the ledger may drop them later', () => {
    const task = sent(now);
    for (const change of [{ expiresMs: null }, { expiresMs: NOW }, { etaMs: null }, { etaMs: 0 }]) {
      expect(now.refusalOnArrival({ ...task, ...change }, NOW)).toMatch('eta or expires');
      expect(now.refusalOf({ ...task, ...change })).toBeNull();
    }
    const { signature = '' } = readOptions(task);
    const parts = signature.split('.');
    const later = [...parts.slice(0, 5), (NOW + 9 * HOUR).toString(36), parts[6]].join('.');
    const forged = {
      ...task,
      expiresMs: NOW + 9 * HOUR,
      options: toBytes(JSON.stringify({ signature: later })),
    };
    expect(now.refusalOnArrival(forged, NOW)).toMatch('not one of the key a');
  });

  it('is valid for signatureMaxAge, and its task is remembered for longer than any copy is accepted', () => {
    const short = keyringOf([`a:${SECRET}`], { signatureMaxAge: '1h' });
    const task = sent(short);
    expect(short.refusalOnArrival(task, NOW + HOUR)).toBeNull();
    // Five minutes are tolerated, because clocks differ.
    expect(short.refusalOnArrival(task, NOW + HOUR + 5 * MINUTE)).toBeNull();
    expect(short.refusalOnArrival(task, NOW + HOUR + 6 * MINUTE)).toMatch('was signed 1.1 h ago');
    // A task that arrived in time may wait and run for any time.
    expect(short.refusalOf(task)).toBeNull();
    const kept = short.dedupMsOf(task, 15 * MINUTE, NOW);
    expect(short.refusalOnArrival(task, NOW + kept - 2 * 5 * MINUTE + 1)).not.toBeNull();
    // The signature of a sender whose clock is ahead is valid for longer.
    const early = sent(short, {}, NOW + 10 * HOUR);
    const longer = short.dedupMsOf(early, 15 * MINUTE, NOW);
    expect(short.refusalOnArrival(early, NOW + longer)).not.toBeNull();
    expect(short.dedupMsOf(task, 9 * HOUR, NOW)).toBe(9 * HOUR);
    expect(short.dedupMsOf(sent(keyringOf([])), 15 * MINUTE, NOW)).toBe(15 * MINUTE);
  });

  it('signs a task again that has waited long, only if it had a valid signature', () => {
    const later = keyringOf([`b:${OTHER}`, `a:${SECRET}`]);
    const task = sent(now, { ...FULL, exchange: 'topics', routingKey: 'x' });
    expect(later.renewed(task, NOW + HOUR)).toBe(task);
    const renewed = later.renewed(task, NOW + 48 * HOUR);
    expect(later.refusalOnArrival(renewed, NOW + 59 * HOUR)).toBeNull();
    expect(later.refusalOnArrival({ ...renewed, queue: 'any' }, NOW + 59 * HOUR)).toBeNull();
    expect(readOptions(renewed)).toMatchObject({ ...FULL, headers: expect.anything() as object });
    const bare = sent(keyringOf([]));
    expect(later.renewed(bare, NOW + 48 * HOUR)).toBe(bare);
    const tampered = {
      ...task,
      options: toBytes(JSON.stringify({ ...readOptions(task), replyTo: 'attacker' })),
    };
    expect(later.renewed(tampered, NOW + 48 * HOUR)).toBe(tampered);
  });

  it('is replaced in steps: first known everywhere, then used to sign, then the old one is removed', () => {
    const [known, turned, after] = [
      keyringOf([`a:${SECRET}`, `b:${OTHER}`]),
      keyringOf([`b:${OTHER}`, `a:${SECRET}`]),
      keyringOf([`b:${OTHER}`]),
    ];
    for (const from of [now, known, turned]) expect(turned.refusalOf(sent(from))).toBeNull();
    expect(known.refusalOf(sent(turned))).toBeNull();
    expect(after.refusalOf(sent(known))).toMatch('the key a, which is not known here');
  });

  it('refuses a signature of another format', () => {
    const { signature = '' } = readOptions(sent(now));
    const parts = signature.split('.');
    const forms = [
      '',
      'a.00',
      `a.${parts[6]}`,
      `0${signature}`,
      `${signature}.x`,
      [...parts.slice(0, 3), 'z', ...parts.slice(4)].join('.'),
      [...parts.slice(0, 2), 'NaN', ...parts.slice(3)].join('.'),
      [...parts.slice(0, 6), ''].join('.'),
      [...parts.slice(0, 6), parts[6]?.slice(0, 20)].join('.'),
    ];
    for (const form of forms) {
      const task = { ...sent(now), options: toBytes(JSON.stringify({ signature: form })) };
      expect(now.refusalOf(task), form).not.toBeNull();
    }
  });
});

describe('a signed message', () => {
  const now = keyringOf([`a:${SECRET}`]);

  function read(task: Envelope, changed: object = {}, properties: object = {}): Envelope {
    const message = encodeMessage(task, 'gen1@host');
    // As a broker delivers it: headers in another order, lone surrogates replaced.
    const text = Buffer.from(
      JSON.stringify(message.headers, (_, value: unknown) =>
        typeof value === 'string' ? Buffer.from(value).toString() : value,
      ),
    ).toString();
    return decodeMessage({
      headers: { ...(JSON.parse(text) as object), ...changed },
      properties: { ...message.properties, ...properties },
      body: message.body,
      queue: 'money',
    }) as Envelope;
  }

  it('is valid with all its options, and not after another program has rewritten its headers', () => {
    for (const options of [{}, FULL])
      expect(now.refusalOnArrival(read(sent(now, options)), NOW)).toBeNull();
    expect(now.refusalOf(read(sent(now), { lang: 'py' }))).toMatch('not signed');
    expect(now.refusalOf(read(sent(now), { 'outlast-digest': sent(now).digest }))).toMatch(
      'not signed',
    );
  });

  it('stays valid when brokers, tracers and operators add headers, and handlers do not see these headers', () => {
    const added = {
      'x-death': [{ count: 1, queue: 'money' }],
      'x-delivery-count': 3,
      'x-received-from': [{ uri: 'amqp://other' }],
      traceparent: '00-abc-def-01',
      retries: 2,
      origin: 'gen2@elsewhere',
      argsrepr: '()',
    };
    const arrived = read(sent(now, FULL), added, { priority: 9, deliveryMode: 2 });
    expect(now.refusalOnArrival(arrived, NOW)).toBeNull();
    expect(Object.keys(readOptions(arrived).headers ?? {}).sort()).toEqual(
      Object.keys(FULL.headers ?? {}).sort(),
    );
  });

  it.each([
    ['reply_to', {}, { replyTo: 'attacker' }],
    ['correlation_id', {}, { correlationId: 'stolen' }],
    ['nested headers', { headers: { user: 'admin' } }, {}],
    ['expires', { expires: null }, {}],
    ['a later expires', { expires: '2099-01-01T00:00:00+00:00' }, {}],
    ['eta', { eta: null }, {}],
    ['tenant', { 'outlast-tenant': 'umbrella' }, {}],
    ['idempotency key', { 'outlast-idempotency-key': 'other' }, {}],
    ['admission', { 'outlast-admission': '{}' }, {}],
    ['time limits', { timelimit: [0.001, null] }, {}],
    ['deadline', { deadline: '2099-01-01T00:00:00+00:00' }, {}],
    ['group', { group: 'other' }, {}],
    ['root', { root_id: 'other' }, {}],
    ['ignore_result', { ignore_result: false }, {}],
  ])('is refused when its %s was changed', (_, headers, properties) => {
    expect(now.refusalOnArrival(read(sent(now, FULL), headers, properties), NOW)).not.toBeNull();
  });

  it('is refused or unchanged, whatever one of its headers is set to', () => {
    const task = sent(now, FULL);
    const says = (envelope: Envelope): string => {
      const { redacted: _shown, ...options } = readOptions(envelope);
      const { id, name, version, queue, etaMs, expiresMs, digest } = envelope;
      return JSON.stringify([id, name, version, queue, etaMs, expiresMs, digest, options]);
    };
    const [right, names] = [
      says(read(task)),
      Object.keys(encodeMessage(task, 'gen1@host').headers),
    ];
    const values = [null, '', 'x', '{}', 0, 7, true, [], [1, 2], { a: 1 }, '2099-01-01T00:00:00Z'];
    for (const name of [...names, 'outlast-unknown', 'compression', 'stamps'])
      for (const value of values) {
        const arrived = read(task, { [name]: value });
        const isTaken = 'digest' in arrived && now.refusalOnArrival(arrived, NOW) === null;
        if (isTaken) expect(says(arrived), `${name}: ${JSON.stringify(value)}`).toBe(right);
      }
  });

  it('drops a header that was added on the way', () => {
    const arrived = read(sent(now), { 'x-user': 'admin' });
    expect(now.refusalOnArrival(arrived, NOW)).toBeNull();
    expect(readOptions(arrived).headers).toBeUndefined();
  });
});

describe('the configuration of signing', () => {
  it('never shows a key, and no error about one quotes it', () => {
    const config = resolveConfig({}, { OUTLAST_SIGNING_KEYS: `a:${SECRET}, b:${OTHER}` });
    expect(config.settings['signingKeys']).toEqual({ value: ['a:***', 'b:***'], source: 'env' });
    expect(inspect(config, { depth: 9 }) + JSON.stringify(config)).not.toContain('c0ffee');
    const bad = [
      ['c0ffee!'],
      ['a:c0ffee'],
      ['a b:c0ffee'],
      [`a:${SECRET}`, `a:${OTHER}`],
      'a:c0ffee',
    ];
    for (const signingKeys of bad) {
      const resolve = (): unknown => resolveConfig({ signingKeys: signingKeys as string[] });
      expect(resolve).toThrow(expect.objectContaining({ code: 'ERR_OPTION_RANGE' }) as Error);
      expect(resolve).not.toThrow('c0ffee');
    }
  });

  it('refuses values that would allow more than they seem to', () => {
    const bad: readonly OutlastConfig[] = [
      { unsignedQueues: ['from-python'] as never },
      { unsignedQueues: { 'from-python': '*' as never } },
      { unsignedQueues: { 'from-python': ['a*b'] } },
      { unsignedQueues: { 'from-python': [''] } },
      { signatureMaxAge: '1d' },
      { signatureMaxAge: '1s' },
      { signingAudience: 7 as never },
    ];
    for (const config of bad)
      expect(() => resolveConfig(config), JSON.stringify(config)).toThrow(
        expect.objectContaining({
          code: expect.stringMatching(/ERR_OPTION_RANGE|ERR_NAME_UNSAFE/) as string,
        }) as Error,
      );
  });

  it('warns of a queue that accepts every unsigned task', () => {
    const config = { signingKeys: [`a:${SECRET}`], unsignedQueues: { open: ['*'] } };
    expect(resolveConfig(config).warnings).toEqual([
      expect.stringMatching('allows every task on open') as string,
    ]);
  });
});
