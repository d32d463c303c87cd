import { execFile } from 'node:child_process';
import {
  cpSync,
  mkdirSync,
  mkdtempSync,
  realpathSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { expect, it, onTestFinished } from 'vitest';
import manifest from '../../package.json' with { type: 'json' };

const ROOT = fileURLToPath(new URL('../../', import.meta.url));
const COMPILER_OPTIONS = {
  module: 'nodenext',
  target: 'es2023',
  lib: ['es2023'],
  strict: true,
  exactOptionalPropertyTypes: true,
  skipLibCheck: false,
  noEmit: true,
  types: ['node'],
};

/** What the compiler says about a project that has installed Outlast, and beside it only these packages. */
async function compile(text: string, packages: readonly string[]): Promise<string> {
  const folder = realpathSync(mkdtempSync(join(tmpdir(), 'outlast-types-')));
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
  const modules = join(folder, 'node_modules');
  for (const name of [...packages, ...Object.keys(manifest.dependencies)]) {
    mkdirSync(dirname(join(modules, name)), { recursive: true });
    symlinkSync(join(ROOT, 'node_modules', name), join(modules, name));
  }
  // A copy: beside the repository's own folder the compiler would find all the peers.
  const isTyped = (path: string): boolean => !/\.(js|map|tsbuildinfo)$/.test(path);
  cpSync(join(ROOT, 'dist'), join(modules, 'outlast/dist'), { recursive: true, filter: isTyped });
  cpSync(join(ROOT, 'package.json'), join(modules, 'outlast/package.json'));
  writeFileSync(join(folder, 'package.json'), '{"type":"module"}');
  writeFileSync(
    join(folder, 'tsconfig.json'),
    JSON.stringify({ compilerOptions: COMPILER_OPTIONS }),
  );
  writeFileSync(join(folder, 'app.ts'), text);
  const tsc = join(ROOT, 'node_modules/.bin/tsc');
  const said = await promisify(execFile)(tsc, ['-p', '.', '--pretty', 'false'], {
    cwd: folder,
  }).catch((error: unknown) => error as { stdout: string });
  return said.stdout;
}

const ENTRY_POINTS = Object.keys(manifest.exports)
  .filter(path => path !== './package.json')
  .map(path => `outlast${path.slice(1)}`);

it('every entry point has types that need no optional package, also with skipLibCheck: false', async () => {
  expect(ENTRY_POINTS.length).toBeGreaterThan(20);
  // The matchers for vitest extend its types: who imports them has it.
  const names = ENTRY_POINTS.filter(name => name !== 'outlast/testing/vitest');
  const text = names.map((name, index) => `export * as e${index} from '${name}';`).join('\n');
  expect(await compile(text, ['@types/node', 'undici-types'])).toBe('');
});

it('an input that JSON cannot carry is refused by what it is and where', async () => {
  const said = await compile(
    `import { task } from 'outlast/task';
import { z } from 'zod';
task('a.date', { input: z.date() });
task('a.order', { input: z.object({ id: z.string(), lines: z.array(z.object({ day: z.date() })) }) });
task('a.map', { result: z.object({ byName: z.map(z.string(), z.number()) }) });
interface Tree { readonly at: Date; readonly below: readonly Tree[] }
const tree: z.ZodType<Tree, Tree> = null as never;
task('a.tree', { input: tree });
task('a.fine', { input: z.object({ day: z.iso.datetime(), bytes: z.instanceof(Uint8Array) }) });
`,
    ['@types/node', 'undici-types', 'zod'],
  );
  const refused = said.matchAll(
    /app\.ts\((\d+),\d+\): error[^\n]*\n[^\n]*?"(JSON cannot carry [^"]+)"/g,
  );
  const convert = ': take a text or a number, and convert it in the handler';
  expect(Array.from(refused, ([, line, text]) => [Number(line), text])).toEqual([
    [3, `JSON cannot carry a Date${convert}`],
    [4, `JSON cannot carry a Date at lines[].day${convert}`],
    [5, `JSON cannot carry a Map at byName${convert}`],
    [8, `JSON cannot carry a Date at at${convert}`],
  ]);
  expect(said.match(/error TS/g)).toHaveLength(4);
});
