import { describe, expect, it } from 'vitest';
import { readBytea } from './read-bytea.ts';

const ALL = Buffer.from(Uint8Array.from({ length: 256 }, (_, byte) => byte));
/** As PostgreSQL writes it with `bytea_output = escape`. */
const escaped = [...ALL]
  .map(byte => {
    if (byte === 0x5c) return String.raw`\\`;
    const isPlain = byte >= 0x20 && byte < 0x7f;
    return isPlain ? String.fromCharCode(byte) : `\\${byte.toString(8).padStart(3, '0')}`;
  })
  .join('');

describe('a bytea value', () => {
  it('is read from the hex format and from the escape format', () => {
    expect(readBytea(`\\x${ALL.toString('hex')}`)).toEqual(ALL);
    expect(readBytea(escaped)).toEqual(ALL);
  });

  it('may be empty, and may contain text that looks like the other format', () => {
    expect(readBytea(String.raw`\x`)).toHaveLength(0);
    expect(readBytea('')).toHaveLength(0);
    expect(readBytea(String.raw`\\x41`).toString()).toBe(String.raw`\x41`);
    expect(readBytea(String.raw`\\101\101`).toString()).toBe(String.raw`\101A`);
  });
});
