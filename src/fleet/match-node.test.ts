import { describe, expect, it } from 'vitest';
import { toBytes } from '../task/json.ts';
import { readRequest, type ControlRequest } from '../wire/control-message.ts';
import { isMeantFor } from './match-node.ts';

const NODE = 'outlast-7@host';
const request = (fields: object): ControlRequest =>
  readRequest({}, toBytes(JSON.stringify({ method: 'ping', ...fields }))) as ControlRequest;
const isMeant = (fields: object): boolean => isMeantFor(NODE, request(fields));

describe('a request', () => {
  it('is for everybody when it names nobody', () => {
    expect(isMeant({})).toBe(true);
    expect(isMeant({ destination: [] })).toBe(true);
    // As kombu has it: a pattern without a matcher says nothing.
    expect(isMeant({ pattern: 'celery@*' })).toBe(true);
  });

  it('is for those it names', () => {
    expect(isMeant({ destination: ['celery@host', NODE] })).toBe(true);
    expect(isMeant({ destination: ['celery@host'] })).toBe(false);
  });

  it.each([
    ['glob', 'outlast-*', true],
    ['glob', '*@host', true],
    ['glob', 'outlast-?@host', true],
    ['glob', 'outlast-[0-9]@host', true],
    ['glob', 'outlast-[!0-9]@host', false],
    ['glob', 'outlast', false],
    ['glob', 'outlast.7@host', false],
    ['pcre', String.raw`outlast-\d+@`, true],
    ['pcre', 'host', false],
    ['pcre', '(', false],
    ['unheard of', '*', false],
  ])('by %s %s is for this node: %s', (matcher, pattern, isExpected) => {
    expect(isMeant({ matcher, pattern })).toBe(isExpected);
  });

  it('cannot hold a worker up with a pattern that takes for ever', () => {
    const name = `${'a'.repeat(40)}@host`;
    const given = request({ matcher: 'pcre', pattern: '(a*)*$' });
    expect(isMeantFor(name, given)).toBe(false);
  });
});
