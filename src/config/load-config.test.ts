import { mkdirSync, mkdtempSync, realpathSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { afterEach, describe, expect, it } from 'vitest';
import { isOutlastError, type OutlastError } from '../errors/error.ts';
import { findConfig } from './find-config.ts';
import { createLoader, loadConfig, loadTaskModules } from './load-config.ts';
import { matchModules } from './match-modules.ts';

const made: string[] = [];
afterEach(() => {
  for (const folder of made.splice(0)) rmSync(folder, { recursive: true, force: true });
});

/** A new folder with these files in it. */
function setup(files: Readonly<Record<string, string>>): string {
  const folder = realpathSync(mkdtempSync(join(tmpdir(), 'outlast-config-')));
  made.push(folder);
  for (const [name, text] of Object.entries(files)) {
    mkdirSync(dirname(join(folder, name)), { recursive: true });
    writeFileSync(join(folder, name), text);
  }
  return folder;
}

async function thrownBy(run: () => unknown): Promise<OutlastError> {
  try {
    await run();
  } catch (error) {
    if (isOutlastError(error)) return error;
    throw error;
  }
  throw new Error('nothing was thrown');
}

const empty = (...names: string[]): Record<string, string> =>
  Object.fromEntries(names.map(name => [name, '']));

describe('findConfig', () => {
  it('takes the preferred kind of file in the nearest folder', () => {
    const folder = setup(
      empty('.git', 'outlast.config.json', 'outlast.config.mts', 'a/outlast.config.js', 'a/b/x'),
    );
    expect(findConfig(folder)).toBe(join(folder, 'outlast.config.mts'));
    expect(findConfig(join(folder, 'a/b'))).toBe(join(folder, 'a/outlast.config.js'));
  });

  it('prefers a config file to the key in package.json, and the nearer folder to both', () => {
    const key = '{"outlast": {}}';
    const folder = setup({ 'outlast.config.ts': '', 'package.json': key, 'a/package.json': key });
    expect(findConfig(folder)).toBe(join(folder, 'outlast.config.ts'));
    expect(findConfig(join(folder, 'a'))).toBe(join(folder, 'a/package.json'));
  });

  it('ignores a package.json that only depends on outlast', () => {
    const folder = setup({
      '.git': '',
      'outlast.config.ts': '',
      'a/package.json': '{"dependencies": {"outlast": "1"}}',
      'b/package.json': 'broken',
    });
    expect(findConfig(join(folder, 'a'))).toBe(join(folder, 'outlast.config.ts'));
    expect(findConfig(join(folder, 'b'))).toBe(join(folder, 'outlast.config.ts'));
  });

  it('ignores a folder that has the name of a config file', () => {
    const folder = setup(empty('package.json', 'outlast.config.ts', 'a/outlast.config.ts/x'));
    expect(findConfig(join(folder, 'a'))).toBe(join(folder, 'outlast.config.ts'));
  });

  it('follows links, so that one file has one path', () => {
    const folder = setup(empty('real/outlast.config.ts'));
    symlinkSync(join(folder, 'real'), join(folder, 'link'));
    expect(findConfig(join(folder, 'link'))).toBe(join(folder, 'real/outlast.config.ts'));
  });

  it('takes only the named file, relative to the working directory', async () => {
    const folder = setup(empty('outlast.config.ts', 'other/full.config.ts'));
    expect(findConfig(folder, 'other/full.config.ts')).toBe(join(folder, 'other/full.config.ts'));
    const error = await thrownBy(() => findConfig(folder, 'none.ts'));
    expect(error).toMatchObject({ code: 'ERR_CONFIG_LOAD', file: join(folder, 'none.ts') });
  });
});

describe('loadConfig', () => {
  it('gives an empty config when there is no file', async () => {
    const folder = setup({});
    expect(await loadConfig({ cwd: folder })).toMatchObject({ config: {}, file: null, folder });
  });

  it('reads JSON and the outlast key of package.json', async () => {
    const config = { tasks: ['./x'] };
    const folder = setup({
      'a/outlast.config.json': JSON.stringify(config),
      'b/package.json': `\uFEFF${JSON.stringify({ outlast: config })}`,
    });
    expect((await loadConfig({ cwd: join(folder, 'a') })).config).toEqual(config);
    expect((await loadConfig({ cwd: join(folder, 'b') })).config).toEqual(config);
  });

  it.each([
    ['outlast.config.json', '{'],
    ['outlast.config.json', '[]'],
    ['package.json', '{"outlast": "x"}'],
  ])('refuses %s holding %s', async (name, text) => {
    const folder = setup({ [name]: text });
    const error = await thrownBy(() => loadConfig({ cwd: folder }));
    expect(error).toMatchObject({ code: 'ERR_CONFIG_LOAD', file: join(folder, name) });
  });
});

describe('matchModules', () => {
  const match = (folder: string, patterns: string[], config = 'outlast.config.ts'): string[] =>
    matchModules(patterns, join(folder, config)).map(file => file.slice(folder.length + 1));

  it('matches one star within a path segment, and sorts the files', () => {
    const folder = setup(
      empty('src/b.ts', 'src/a.ts', 'src/deep/c.ts', 'src/readme.md', 'src/.hidden.ts'),
    );
    expect(match(folder, ['./src/*'])).toEqual(['src/a.ts', 'src/b.ts']);
    expect(match(folder, ['src/*.ts'])).toEqual(['src/a.ts', 'src/b.ts']);
    expect(match(folder, ['./src/a*'])).toEqual(['src/a.ts']);
  });

  it('matches two stars across any number of folders, including none', () => {
    const folder = setup(
      empty(
        'src/a.ts',
        'src/x/a.ts',
        'src/x/y/a.ts',
        'src/node_modules/p/a.ts',
        'src/.git/a.ts',
        'b.ts',
      ),
    );
    const all = ['src/a.ts', 'src/x/a.ts', 'src/x/y/a.ts'];
    expect(match(folder, ['./src/**/*'])).toEqual(all);
    expect(match(folder, ['./src/**/a.ts'])).toEqual(all);
    expect(match(folder, ['./src/**'])).toEqual(all);
    expect(match(folder, ['./**/x/*'])).toEqual(['src/x/a.ts']);
    expect(match(folder, ['./src/*/a'])).toEqual(['src/x/a.ts']);
  });

  it('gives a pattern without extension the extensions of the config file', () => {
    const folder = setup(empty('h/a.ts', 'h/b.mts', 'h/c.js', 'h/d.mjs', 'h/e.cjs'));
    expect(match(folder, ['h/*'])).toEqual(['h/a.ts', 'h/b.mts']);
    expect(match(folder, ['h/*'], 'outlast.config.mjs')).toEqual(['h/c.js', 'h/d.mjs']);
    expect(match(folder, ['h/*'], 'package.json')).toEqual([
      'h/a.ts',
      'h/b.mts',
      'h/c.js',
      'h/d.mjs',
    ]);
    expect(match(folder, ['h/*.cjs'])).toEqual(['h/e.cjs']);
    expect(match(folder, ['h/a', 'h/c.js'])).toEqual(['h/a.ts', 'h/c.js']);
  });

  it('does not read every dot in a name as an extension', () => {
    const folder = setup(empty('h/charge.handler.ts', 'h/charge.ts'));
    expect(match(folder, ['h/*.handler'])).toEqual(['h/charge.handler.ts']);
  });

  it('skips tests and declarations, unless one is named in full', () => {
    const folder = setup(
      empty('h/a.ts', 'h/a.test.ts', 'h/a.spec.mts', 'h/b.d.ts', 'h/c.d.mts', 'h/test.ts'),
    );
    expect(match(folder, ['h/*'])).toEqual(['h/a.ts', 'h/test.ts']);
    expect(match(folder, ['h/a.test.ts'])).toEqual(['h/a.test.ts']);
  });

  it('keeps the order of the patterns and takes a file once', () => {
    const folder = setup(empty('h/a.ts', 'h/b.ts'));
    expect(match(folder, ['h/b', 'h/*'])).toEqual(['h/b.ts', 'h/a.ts']);
  });

  it('accepts folders above the config and absolute paths', () => {
    const folder = setup(empty('shared/a.ts', 'app/x'));
    const config = 'app/outlast.config.ts';
    expect(match(folder, ['../shared/*'], config)).toEqual(['shared/a.ts']);
    expect(match(folder, [`${folder}/shared/*`], config)).toEqual(['shared/a.ts']);
  });

  it('matches characters of regular expressions literally', () => {
    const folder = setup(empty('(app)/[id]/a+b.ts', '(app)/[id]/aab.ts'));
    expect(match(folder, ['(app)/[id]/a+*'])).toEqual(['(app)/[id]/a+b.ts']);
  });

  it('ends when a symbolic link points to its own folder', () => {
    const folder = setup(empty('h/a.ts'));
    symlinkSync(join(folder, 'h'), join(folder, 'h/self'));
    expect(match(folder, ['h/**'])).toEqual(['h/a.ts']);
  });

  it('refuses a pattern that matches nothing, by name', async () => {
    const folder = setup(empty('h/a.js', 'h/b.test.ts', 'g/a.ts'));
    for (const pattern of ['h/*', 'none/*', 'h/a.ts']) {
      const error = await thrownBy(() => match(folder, ['g/*', pattern]));
      expect(error).toMatchObject({
        code: 'ERR_CONFIG_LOAD',
        file: join(folder, 'outlast.config.ts'),
      });
      expect(error.message).toContain(`\`${pattern}\``);
    }
    expect((await thrownBy(() => match(folder, ['./g']))).hint).toContain('`./g/*`');
  });
});

describe('a module that cannot be loaded', () => {
  const load = (folder: string, file: string): Promise<unknown> =>
    loadTaskModules(
      [`./${file}`],
      join(folder, 'x'),
      createLoader({ kind: 'native', base: folder }),
    );

  it('is reported with the file and line that threw, also in a file it imports', async () => {
    const folder = setup({
      'bad.mjs': "import './deep.mjs';",
      'deep.mjs': "export const a = 1;\nthrow new Error('no KEY');",
    });
    const error = await thrownBy(() => load(folder, 'bad.mjs'));
    const file = join(folder, 'bad.mjs');
    expect(error).toMatchObject({ code: 'ERR_HANDLER_NOT_LOADABLE', file, line: 2 });
    expect(error.message).toContain(`no KEY, at ${join(folder, 'deep.mjs')}:2:`);
  });

  it('is reported with the stack frames of the user first', async () => {
    const folder = setup({ 'bad.mjs': "function read() {\n  throw new Error('x');\n}\nread();" });
    const error = await thrownBy(() => load(folder, 'bad.mjs'));
    const { traceback } = error as unknown as { readonly traceback: string };
    expect(traceback.split('\n')[0]).toMatch(/^at read \(.*bad\.mjs:2:9\)$/);
  });
});
