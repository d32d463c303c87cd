import { inspect } from 'node:util';
import { describe, expect, it } from 'vitest';
import { resolveConfig } from '../config/config.ts';
import { decodeMessage } from '../wire/decode-message.ts';
import { encodeMessage } from '../wire/encode-message.ts';
import { digestOf } from './digest.ts';
import type { Envelope } from './envelope.ts';
import { toBytes } from './json.ts';
import type { Keyring } from './keyring.ts';

const SECRET = 'c0ffee'.repeat(8);
const OTHER = Buffer.alloc(32, 7).toString('base64');

const keyringOf = (keys: readonly string[], unsignedQueues: readonly string[] = []): Keyring =>
  resolveConfig({ signingKeys: keys, unsignedQueues }).keyring;

function sent(keyring: Keyring): Envelope {
  const named = { name: 'shop.charge', id: 'one', version: 1, body: toBytes('[[],{},{}]') };
  const digest = digestOf(named);
  const signature = keyring.sign(digest);
  const options = toBytes(JSON.stringify(signature === undefined ? {} : { signature }));
  return { ...named, queue: 'money', priority: 0, options, digest, etaMs: null, expiresMs: null };
}

describe('a key', () => {
  const now = keyringOf([`a:${SECRET}`]);

  it('verifies what it has signed', () => {
    expect(now.refusalOf(sent(now))).toBeNull();
  });

  it('refuses what is not signed, on every queue but those that need no signature', () => {
    const bare = sent(keyringOf([]));
    expect(now.refusalOf(bare)).toMatch('not signed');
    expect(keyringOf([`a:${SECRET}`], ['money']).refusalOf(bare)).toBeNull();
    expect(keyringOf([]).refusalOf(sent(now))).toBeNull();
  });

  it('refuses another secret of the same id, and a signature of other bytes', () => {
    expect(keyringOf([`a:${OTHER}`]).refusalOf(sent(now))).toMatch('not one of the key a');
    const other = { ...sent(now), digest: digestOf({ ...sent(now), id: 'two' }) };
    expect(now.refusalOf(other)).toMatch('not one of the key a');
  });

  it('is replaced in steps: known everywhere first, then signing, then gone', () => {
    const [known, turned, after] = [
      keyringOf([`a:${SECRET}`, `b:${OTHER}`]),
      keyringOf([`b:${OTHER}`, `a:${SECRET}`]),
      keyringOf([`b:${OTHER}`]),
    ];
    for (const from of [now, known, turned]) expect(turned.refusalOf(sent(from))).toBeNull();
    expect(known.refusalOf(sent(turned))).toBeNull();
    expect(after.refusalOf(sent(known))).toMatch('the key a, which is not known here');
  });

  it('is in the message for RabbitMQ and Redis, and counts only while it is ours', () => {
    const { headers, properties, body } = encodeMessage(sent(now), 'gen1@host');
    const read = (changed: object): Envelope =>
      decodeMessage({
        headers: { ...headers, ...changed },
        properties,
        body,
        queue: 'money',
      }) as Envelope;
    expect(now.refusalOf(read({}))).toBeNull();
    expect(now.refusalOf(read({ lang: 'py' }))).toMatch('not signed');
    expect(now.refusalOf(read({ 'outlast-digest': sent(now).digest }))).toMatch('not signed');
  });

  it('is never shown, and no error about one quotes it', () => {
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
});
