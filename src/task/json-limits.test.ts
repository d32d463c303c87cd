import * as fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { jsonFault, MAX_JSON_DEPTH, MAX_JSON_DIGITS } from './json-limits.ts';
import { decodeJson, encodeJson, toBytes } from './json.ts';

const fault = (text: string): string | null => jsonFault(toBytes(text));
const lists = (depth: number): string => '['.repeat(depth) + ']'.repeat(depth);
const body = (embed: string): string => `[[],{},${embed}]`;
/** Groups in groups, with this many bytes of arguments in the innermost. */
const groups = (levels: number, bytes: number): string =>
  body(
    `{"callbacks":[${'{"task":"celery.group","kwargs":{"tasks":['.repeat(levels)}{"task":"x","args":["${'y'.repeat(bytes)}"]}${']}}'.repeat(levels)}]}`,
  );

describe('JSON from another program', () => {
  it('may be nested as deeply as the limit, and not deeper', () => {
    expect(fault(lists(MAX_JSON_DEPTH))).toBeNull();
    expect(fault(lists(MAX_JSON_DEPTH + 1))).toContain('nested deeper');
    expect(fault('{"a":'.repeat(5_000_000))).toContain('nested deeper');
    expect(fault(`[${'[],'.repeat(10_000)}[]]`)).toBeNull();
  });

  it('may have numbers of as many digits as the limit, and no more', () => {
    expect(fault(`[${'9'.repeat(MAX_JSON_DIGITS)}]`)).toBeNull();
    expect(fault(`[-${'9'.repeat(MAX_JSON_DIGITS + 1)}]`)).toContain('digits');
    expect(fault(`[0.${'1'.repeat(MAX_JSON_DIGITS + 1)}]`)).toContain('digits');
    expect(fault(`[${'9'.repeat(64_000_000)}]`)).toContain('digits');
  });

  it('may contain anything in its strings', () => {
    const text = `${'7'.repeat(5_000)}${'['.repeat(500)}\\"`;
    expect(fault(JSON.stringify([text, { [text]: text }]))).toBeNull();
    expect(fault(`["\\\\",${lists(MAX_JSON_DEPTH)}]`)).toContain('nested deeper');
    expect(fault(`["${'x'.repeat(40)}\\\\",${lists(MAX_JSON_DEPTH)}]`)).toContain('nested deeper');
    // It never closes: the parser reports that.
    expect(fault('["abc\\')).toBeNull();
  });

  it('has a size limit for its follow-ups, level by level', () => {
    expect(fault(groups(60, 100_000))).toBeNull();
    expect(fault(groups(60, 1_000_000))).toContain('follows');
    expect(fault(groups(1, 8_000_000))).toBeNull();
    expect(fault(`[${groups(60, 1_000_000)},{},{}]`)).toBeNull();
  });

  it('is accepted whenever we could have sent it', () => {
    fc.assert(
      fc.property(fc.jsonValue({ maxDepth: 40 }), value => {
        expect(fault(body(encodeJson(value)))).toBeNull();
      }),
    );
  });
});

describe('a number with more digits than the limit', () => {
  it('is refused before it is parsed, and before it is encoded', () => {
    expect(() => decodeJson(`[${'9'.repeat(16_000_000)}]`)).toThrow(/digits/);
    expect(decodeJson(`[${'9'.repeat(MAX_JSON_DIGITS)}]`)).toEqual([
      BigInt('9'.repeat(MAX_JSON_DIGITS)),
    ]);
    expect(() => encodeJson({ n: 1n << 100_000_000n })).toThrow(/digits/);
    expect(encodeJson(10n ** 4_299n)).toHaveLength(4_300);
  });
});
