import * as fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { callKey, canonicalJson, lockKey } from './call-key.ts';
import { idempotencyOf } from './idempotency.ts';
import { task } from './define-task.ts';
import { decodeBody, inputFromCall } from './input.ts';
import { toBytes } from './json.ts';
import { unchecked } from './standard-schema.ts';

const whole = { key: null };
const keyOf = (name: string, input: unknown, version = 1): string =>
  callKey(whole, { name, version, input }, input).key;

describe('the key of a call', () => {
  it('contains the whole task name, so that tasks of different modules never share a result', () => {
    expect(keyOf('billing.process', '42')).not.toBe(keyOf('shipping.process', '42'));
    expect(keyOf('a', 'b')).not.toBe(keyOf('ab', ''));
  });

  it('is a full SHA-256, not a part of one', () => {
    expect(keyOf('a', 1)).toMatch(/^a#[0-9a-f]{64}$/);
  });

  it('is the same for positional and named arguments', () => {
    const { contract } = task('f', {
      input: unchecked<{ x: number; y?: number }>(),
      params: ['x', 'y'],
    });
    const of = (body: string): string =>
      keyOf('f', inputFromCall(contract, decodeBody(toBytes(body))));
    expect(of('[[1],{},null]')).toBe(of('[[],{"x":1},null]'));
    expect(of('[[1,2],{},null]')).toBe(of('[[1],{"y":2},null]'));
    expect(of('[[1],{},null]')).not.toBe(of('[[2],{},null]'));
  });

  it('does not depend on the order of members, at any depth', () => {
    const json = fc.jsonValue({ maxDepth: 4 });
    const shuffled = (value: unknown): unknown => {
      if (Array.isArray(value)) return value.map(shuffled);
      if (typeof value !== 'object' || value === null) return value;
      return Object.fromEntries(
        Object.entries(value)
          .toReversed()
          .map(([key, item]) => [key, shuffled(item)]),
      );
    };
    fc.assert(
      fc.property(json, value => {
        expect(keyOf('f', shuffled(value))).toBe(keyOf('f', value));
        expect(JSON.parse(canonicalJson(value))).toEqual(value);
      }),
    );
  });

  it('differs for inputs that differ in JSON', () => {
    const inputs = [undefined, null, 0, '0', '', [], {}, [1, 2], [2, 1], { a: 1 }, { a: '1' }, 1n];
    expect(new Set(inputs.map(input => keyOf('f', input))).size).toBe(inputs.length);
    expect(keyOf('f', 2n ** 60n)).not.toBe(keyOf('f', 2n ** 60n + 1n));
    expect(keyOf('f', { a: 5 }, 1)).not.toBe(keyOf('f', { a: 5 }, 2));
  });

  it('is made by the function of the task, from the input in its current version', () => {
    const own = { key: (input: unknown) => (input as { order: string }).order };
    const call = { name: 'pay', version: 1, input: { order: '17', cents: 5 } };
    const { key, digest } = callKey(own, call, { order: '17' });
    expect(key).toBe('pay#17');
    expect(callKey(own, { ...call, input: { order: '17', cents: 6 } }, { order: '17' })).toEqual({
      key: 'pay#17',
      digest: expect.not.stringContaining(digest) as string,
    });
  });

  it('is never the key of an idempotencyLock', () => {
    expect(lockKey('17')).toBe('#17');
    expect(() => lockKey('')).toThrow(/not allowed/);
  });
});

describe('`idempotent`', () => {
  it('keeps a result for a day by default', () => {
    expect(idempotencyOf('f', true)).toMatchObject({ key: null, ttlMs: 86_400_000 });
    expect(idempotencyOf('f', { ttl: '10m' })).toMatchObject({ key: null, ttlMs: 600_000 });
    expect(idempotencyOf('f', undefined)).toBeNull();
  });

  it.each([1, 'yes', { key: 'id' }, { ttl: '0s' }, { tll: '1h' }, null])('refuses %j', given => {
    expect(() => task('f', { idempotent: given as never })).toThrow(/idempotent/);
  });
});
