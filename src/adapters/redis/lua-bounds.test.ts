import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';

const FOLDER = join(import.meta.dirname, 'lua');
const filesIn = (folder: string): readonly (readonly [name: string, text: string])[] =>
  readdirSync(folder)
    .filter(name => name.endsWith('.lua'))
    .map(name => [name, readFileSync(join(folder, name), 'utf8')]);

/** Lists whose length is bounded by the lines above them. All others are passed in parts: `unpack(list, first, last)`. */
const BOUNDED = new Set([
  'admission-free.lua: unpack(woken)',
  'ledger-begin.lua: unpack(adding)',
  'ledger-begin.lua: unpack(going)',
  'ledger-begin.lua: unpack(kinds[kind])',
  'ledger-begin.lua: unpack(messages)',
  'ledger-begin.lua: unpack(removing)',
  'ledger-commit-new.lua: unpack(batch)',
  'ledger-record.lua: unpack(command)',
  'ledger-record.lua: unpack(record)',
  'take.lua: unpack(fields)',
]);
const IN_PARTS = /: unpack\(\w+, \w+, \w+\)$/;

describe('a script for Redis', () => {
  it('states in its header how much one call does at most, because it blocks the server', () => {
    const silent = filesIn(FOLDER).filter(([, text]) => !/^-- bound: \S/m.test(text));
    expect(silent.map(([name]) => name)).toEqual([]);
  });

  it('unpacks no list of unlimited length, because the Lua stack holds 8000 values', () => {
    const texts = [...filesIn(FOLDER), ...filesIn(join(FOLDER, 'includes'))];
    const found = texts.flatMap(([name, text]) => {
      const code = text.replaceAll(/^\s*--.*$/gm, '');
      const calls = code.match(/(?<!cmsgpack\.)\bunpack\b(?:\((?:[^()]|\([^()]*\))*\))?/g) ?? [];
      return calls
        .map(call => `${name}: ${call}`)
        .filter(call => !IN_PARTS.test(call) && !BOUNDED.has(call));
    });
    expect(found).toEqual([]);
  });
});
