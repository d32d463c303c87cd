import { createHash } from 'node:crypto';
import { describe, expect, it } from 'vitest';
import { digestOf } from './digest.ts';
import { toBytes } from './json.ts';

describe('the digest', () => {
  it.each(['[[],{},{}]', '[["grün ☃ 🙂"],{},{}]', '[["\ud800"],{},{}]', ''])(
    'of a body as text equals that of its bytes: %j',
    text => {
      const named = { name: 'shop.receipt', id: '1', version: 12 };
      const body = toBytes(text);
      const digest = createHash('sha256')
        .update(`12:shop.receipt1:12:12${body.length}:`)
        .update(body)
        .digest('hex');
      expect(digestOf({ ...named, body })).toBe(digest);
      expect(digestOf({ ...named, body: text })).toBe(digest);
    },
  );

  it('differs when name and id are divided differently', () => {
    const one = digestOf({ name: 'ab', id: 'c', version: 1, body: '[]' });
    expect(digestOf({ name: 'a', id: 'bc', version: 1, body: '[]' })).not.toBe(one);
  });
});
