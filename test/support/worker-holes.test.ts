import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, it } from 'vitest';

const ROOT = join(import.meta.dirname, '../..');
const HOLES = [
  ...Array.from({ length: 15 }, (_, n) => String(n + 1)),
  ...Array.from('abcdefgh', letter => `16${letter}`),
  ...Array.from({ length: 13 }, (_, n) => String(n + 17)),
  ...Array.from({ length: 14 }, (_, n) => `H${n + 1}`),
  ...Array.from('abcde', letter => `H15${letter}`),
];

/** The holes of the page, each with the tests it names. */
function readPage(): ReadonlyMap<string, readonly (readonly [file: string, title: string])[]> {
  const page = readFileSync(join(ROOT, 'docs/internals/worker-holes.md'), 'utf8');
  const rows = page.matchAll(/^\| (H?\d+[a-h]?) \|.*\| ([^|]+) \|$/gm);
  return new Map(Array.from(rows, ([, hole = '', tests = '']) => [hole, namedIn(tests)]));
}

function namedIn(tests: string): readonly (readonly [string, string])[] {
  let current = '';
  return [...tests.matchAll(/`([^`]+)`|"([^"]+)"/g)].flatMap(([, file, title]) => {
    current = file ?? current;
    return title === undefined ? [] : [[current, title] as const];
  });
}

it('has every hole, each with at least one test', () => {
  const page = readPage();
  expect([...page.keys()]).toEqual(HOLES);
  for (const [hole, tests] of page) expect(tests.length, hole).toBeGreaterThan(0);
});

it('names only existing tests, by their titles', () => {
  const missing = [...readPage()].flatMap(([hole, tests]) =>
    tests
      .filter(([file, title]) => {
        const source = readFileSync(join(ROOT, file), 'utf8');
        return !["'", '"', '`'].some(quote => source.includes(`${quote}${title}${quote},`));
      })
      .map(([file, title]) => `${hole}: ${file} ${title}`),
  );
  expect(missing).toEqual([]);
});
