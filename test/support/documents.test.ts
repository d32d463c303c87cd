import { existsSync, readFileSync, readdirSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { FILTER_TERMS } from '../../src/admin/task-filter.ts';
import { WHY_ANSWERS } from '../../src/admin/why.ts';
import { CHECKS } from '../../src/telemetry/checkup.ts';
import { FAULT_POINTS } from '../../src/runtime/runtime.ts';

const ROOT = join(import.meta.dirname, '../..');
const PAGES = ['.', 'docs', 'src'].flatMap(folder =>
  readdirSync(join(ROOT, folder), { recursive: folder !== '.', encoding: 'utf8' })
    .filter(name => name.endsWith('.md'))
    .map(name => join(folder, name)),
);
/** A path in backticks: it has a slash, and no placeholder, glob or space. */
const PATH = /`((?:\.?[\w-]+\/)+[\w.-]*)`/g;
const FENCES = /^```[\s\S]*?^```/gm;
const LONGEST_LINE = 200;
const LONGEST_CELL = 120;

const read = (page: string): string => readFileSync(join(ROOT, page), 'utf8');
const prose = (page: string): string => read(page).replaceAll(FENCES, '');

/** The anchors of a page, as GitHub makes them of its headings. */
function anchorsOf(page: string): ReadonlySet<string> {
  const headings = prose(page).matchAll(/^#+ (.*)$/gm);
  return new Set(
    Array.from(headings, ([, heading = '']) =>
      heading
        .toLowerCase()
        .replaceAll(/[^\p{L}\p{N} _-]/gu, '')
        .replaceAll(' ', '-'),
    ),
  );
}

function brokenLinks(page: string): readonly string[] {
  return Array.from(prose(page).matchAll(/\]\(([^)\s]+)\)/g), ([, link = '']) => link)
    .filter(link => !/^[a-z]+:/.test(link))
    .filter(link => {
      const [path = '', anchor] = link.split('#');
      const target = path === '' ? page : join(dirname(page), path);
      if (!existsSync(join(ROOT, target))) return true;
      return anchor !== undefined && target.endsWith('.md') && !anchorsOf(target).has(anchor);
    })
    .map(link => `${page}: ${link}`);
}

/** Every test file that is named, with the titles that are quoted after it. */
function testsNamedIn(page: string): readonly (readonly [file: string, title: string | null])[] {
  let file = '';
  return Array.from(prose(page).matchAll(/`([\w/.-]+\.ts)`|"([^"]+)"/g), ([, path, title]) => {
    file = path ?? file;
    return [file, title?.replaceAll(/\s+/g, ' ') ?? null] as const;
  });
}

const TEST_FILES = ['src', 'test'].flatMap(folder =>
  readdirSync(join(ROOT, folder), { recursive: true, encoding: 'utf8' })
    .filter(name => name.endsWith('.ts'))
    .map(name => join(folder, name)),
);

it('links only to pages and headings that exist', () => {
  expect(PAGES.flatMap(brokenLinks)).toEqual([]);
});

it.each([
  ['src/README.md', 'src'],
  ['CONTRIBUTING.md', '.'],
  ['src/adapters/postgres/sql/README.md', '.'],
])('%s names only files and folders that exist', (page, base) => {
  const missing = Array.from(prose(page).matchAll(PATH), ([, path = '']) => path).filter(
    path => !existsSync(join(ROOT, base, path)) && !existsSync(join(ROOT, path)),
  );
  expect(missing).toEqual([]);
});

describe('the crash matrix', () => {
  it.each(FAULT_POINTS)('has a row for a process that dies at %s', point => {
    const rows = read('docs/internals/crash-matrix.md').matchAll(/^\|.*\|$/gm);
    expect(
      Array.from(rows, ([row]) => row).filter(row => row.includes(`\`${point}\``)),
    ).toHaveLength(1);
  });
});

it.each(['ARCHITECTURE.md', 'docs/internals/crash-matrix.md'])(
  '%s names only source and test files that exist',
  page => {
    const missing = testsNamedIn(page)
      .map(([file]) => file)
      .filter(file => !TEST_FILES.some(known => `/${known}`.endsWith(`/${file}`)));
    expect(missing).toEqual([]);
  },
);

it('the guarantees name only tests that exist, by file and title', () => {
  const missing = testsNamedIn('docs/internals/guarantees.md').filter(([file, title]) => {
    if (!existsSync(join(ROOT, file))) return true;
    return title !== null && !read(file).includes(title);
  });
  expect(missing).toEqual([]);
});

it('ARCHITECTURE.md has no long line of prose and no long table cell', () => {
  const lines = prose('ARCHITECTURE.md').split('\n');
  const isRow = (line: string): boolean => line.startsWith('|');
  expect(lines.filter(line => !isRow(line) && line.length > LONGEST_LINE)).toEqual([]);
  const cells = lines.filter(isRow).flatMap(line => line.split(' | '));
  expect(cells.filter(cell => cell.length > LONGEST_CELL)).toEqual([]);
});

describe('the page about the command line', () => {
  it('has every check of the doctor, in the same words and order', () => {
    const doctor = read('docs/reference/cli.md')
      .split(/^## /m)
      .find(text => text.startsWith('`outlast doctor`'));
    const found = Array.from(
      (doctor ?? '').matchAll(/^\| `([a-z]+)` \| (.*?) \| .+ \|$/gm),
      ([, name = '', meaning = '']) => [name, meaning],
    );
    expect(found).toEqual(Object.entries(CHECKS));
  });

  const section = read('docs/reference/cli.md')
    .split(/^## /m)
    .find(text => text.startsWith('`outlast tasks`'));
  const rows = Array.from(
    (section ?? '').matchAll(/^\| `([^`]+)` \| (.*) \|$/gm),
    ([, name = '', text = '']) => [name, text],
  );

  it('has every answer to why, in the same words and order', () => {
    const answers = rows.filter(([name = '']) => !name.startsWith('--'));
    expect(answers).toEqual(Object.entries(WHY_ANSWERS));
  });

  it('has every term of a filter, in the same words', () => {
    const flags = rows.filter(([name = '']) => name.startsWith('--') && !/limit|cursor/.test(name));
    const flagOf = (term: string): string =>
      term.replaceAll(/[A-Z]/g, letter => `-${letter.toLowerCase()}`);
    expect(flags).toEqual(
      Object.entries(FILTER_TERMS).map(([term, { value, sentence }]) => [
        `--${flagOf(term)} <${value}>`,
        sentence,
      ]),
    );
  });
});
