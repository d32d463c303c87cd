import * as fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { toBytes } from '../task/json.ts';
import { readRequest, type ControlRequest } from '../wire/control-message.ts';
import { addressOf } from './match-node.ts';

const NODE = 'outlast-7@host';
const request = (fields: object): ControlRequest =>
  readRequest({}, toBytes(JSON.stringify({ method: 'ping', ...fields }))) as ControlRequest;
const isMeant = (fields: object): boolean => addressOf(NODE, request(fields)) === 'us';

describe('a request', () => {
  it('is for every node when it names none', () => {
    expect(isMeant({})).toBe(true);
    expect(isMeant({ destination: [] })).toBe(true);
    // As in kombu: a pattern without a matcher is ignored.
    expect(isMeant({ pattern: 'celery@*' })).toBe(true);
  });

  it('is for the nodes it names', () => {
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
    ['pcre', '(outlast|celery)-[0-9]+@h.?st$', true],
    ['pcre', String.raw`[^\d]+-\w@(?:a|b|host)`, true],
    ['pcre', 'outlast-7@hos$', false],
    ['glob', '[]', false],
    ['unknown', '*', false],
  ])('by %s %s is for this node: %s', (matcher, pattern, isExpected) => {
    expect(isMeant({ matcher, pattern })).toBe(isExpected);
  });

  it.each([
    '(',
    'a{2}',
    '(?=a)',
    String.raw`(a)\1`,
    'a**',
    '[z-a]',
    String.raw`\bhost`,
    'a'.repeat(257),
  ])('with the pattern %s is refused, with the reason', pattern => {
    expect(addressOf(NODE, request({ matcher: 'pcre', pattern }))).toEqual({
      refusal: expect.stringMatching(/pattern/) as string,
    });
  });

  it('by a pattern is for the same nodes as with a regular expression of JavaScript', () => {
    const unit = fc.constantFrom('a', 'b', '.', '*', '+', '?', '|', '(', ')', '[ab]', '^', '$');
    const source = fc.string({ unit, maxLength: 8 });
    const name = fc.string({ unit: fc.constantFrom('a', 'b', 'c'), maxLength: 6 });
    fc.assert(
      fc.property(source, name, (pattern, node) => {
        const found = addressOf(node, request({ matcher: 'pcre', pattern }));
        if (pattern === '' || typeof found === 'object') return;
        expect(found === 'us').toBe(new RegExp(`^(?:${pattern})`).test(node));
      }),
      { numRuns: 3_000 },
    );
  });
});
