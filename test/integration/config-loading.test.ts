import { execFile } from 'node:child_process';
import {
  cpSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  realpathSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { promisify } from 'node:util';
import { afterEach, beforeAll, describe, expect, it } from 'vitest';
import { node22Path } from '../support/servers.ts';

const ROOT = fileURLToPath(new URL('../../', import.meta.url));
const DIST = join(ROOT, 'dist');
const NODE22 = node22Path();
/** These tests distinguish Node versions by what they do with TypeScript, whichever one runs the tests. */
const strips = Boolean((process.features as { typescript?: unknown }).typescript);

const made: string[] = [];
beforeAll(() => {
  if (!existsSync(join(DIST, 'config/load-config.js')))
    throw new Error('run `npm run build` first');
});
afterEach(() => {
  for (const folder of made.splice(0)) rmSync(folder, { recursive: true, force: true });
});

/** Loads the config of its working directory as a process of ours would, and prints what it saw. */
const RUNNER = `
const [dist, given] = process.argv.slice(2);
const { createLoader, loadConfig, loadTaskModules } = await import(dist + '/config/load-config.js');
const { task } = await import(dist + '/task/index.js');
const print = value => console.log(JSON.stringify(value));
try {
  const options = JSON.parse(given);
  const { config, loader, file } = options.inherit ?? (await loadConfig(options));
  const found = await loadTaskModules(config.tasks ?? [], loader.base, createLoader(loader));
  const handlers = found.map(({ handler, ...place }) => ({ says: handler.says, ...place }));
  const isOne = (name, copy) => found.every(({ handler }) => (handler[name] ?? copy) === copy);
  const oneTask = isOne('task', task);
  const oneConfig = isOne('config', config);
  print({ config, loader, file, handlers, oneTask, oneConfig, copies: globalThis.copies ?? 0 });
} catch (error) {
  const { code, message, hint, file, cause } = error;
  print({ code, message, hint, file, cause: cause?.message });
}
`;

interface Seen {
  readonly config: { readonly tasks?: readonly string[] };
  readonly file: string;
  readonly loader: { readonly kind: string; readonly base: string };
  readonly handlers: readonly {
    readonly says: string;
    readonly file: string;
    readonly exportName: string;
  }[];
  readonly oneTask: boolean;
  readonly oneConfig: boolean;
  readonly copies: number;
  readonly code: string;
  readonly message: string;
  readonly hint: string;
  readonly cause: string;
}

interface Project {
  readonly folder: string;
  run(options?: object, node?: string, flags?: readonly string[]): Promise<Seen>;
}

interface Kind {
  /** False: neither the project nor Outlast has jiti. */
  readonly jiti?: boolean;
  /** The working directory of the command. */
  readonly cwd?: string;
}

/** A project in its own folder, with Outlast installed as a link to the build. */
function setup(files: Readonly<Record<string, string>>, kind: Kind = {}): Project {
  const folder = realpathSync(mkdtempSync(join(tmpdir(), 'outlast-load-')));
  made.push(folder);
  const all = { 'package.json': '{"type": "module"}', 'run.mjs': RUNNER, ...files };
  for (const [name, text] of Object.entries(all)) {
    mkdirSync(dirname(join(folder, name)), { recursive: true });
    writeFileSync(join(folder, name), text);
  }
  const outlast = join(folder, 'node_modules/outlast');
  mkdirSync(dirname(outlast), { recursive: true });
  if (kind.jiti === false) {
    // A copy outside the repository, so that the repository's own jiti is not found.
    cpSync(DIST, join(outlast, 'dist'), { recursive: true });
    cpSync(join(ROOT, 'package.json'), join(outlast, 'package.json'));
  } else {
    symlinkSync(ROOT, outlast);
    symlinkSync(join(ROOT, 'node_modules/jiti'), join(folder, 'node_modules/jiti'));
  }
  return {
    folder,
    run: async (options = {}, node = process.execPath, flags = []) => {
      const dist = pathToFileURL(realpathSync(join(outlast, 'dist'))).href;
      const args = [...flags, join(folder, 'run.mjs'), dist, JSON.stringify(options)];
      const { stdout } = await promisify(execFile)(node, args, {
        cwd: join(folder, kind.cwd ?? '.'),
      });
      return JSON.parse(stdout) as Seen;
    },
  };
}

const DB = 'globalThis.copies = (globalThis.copies ?? 0) + 1; export const pool: object = {};';
const BRAND = `[Symbol.for('outlast.handler')]: true`;

/** Config and handlers share `db.ts`, and the handler imports the config as an application does. */
const SHARED: Readonly<Record<string, string>> = {
  'outlast.config.ts': `
    import { task } from 'outlast/task';
    import { pool } from './src/db.ts';
    interface Shape { readonly tasks: readonly string[] }
    if (!pool || !task) throw new Error('not loaded');
    const config: Shape = { tasks: ['./src/handlers/*'] };
    export default config;`,
  'src/db.ts': DB,
  'src/handlers/a.ts': `
    import { task } from 'outlast/task';
    import config from '../../outlast.config.ts';
    import { pool } from '../db.ts';
    export const a = { ${BRAND}, says: 'a' as string, pool, task, config };`,
  'src/handlers/b.ts': `
    import { pool } from '../db.ts';
    export default { ${BRAND}, says: 'b', pool };`,
};

const SHARED_BY_JS = SHARED['src/handlers/a.ts']?.replaceAll('.ts', '.js') ?? '';
const TSX = import.meta.resolve('tsx');

/** Three constructs that Node does not strip. */
const BEYOND_STRIPPING: Readonly<Record<string, string>> = {
  'outlast.config.ts': `export default { tasks: ['./src/handlers/*'] };`,
  'src/db.ts': DB,
  'src/handlers/a.ts': `
    import { pool } from '../db.js';
    enum Colour { Red = 'red' }
    export async function close(): Promise<void> { await using it = null as never; void it; }
    export const a = { ${BRAND}, says: Colour.Red, pool };`,
};

function expectOneCopy(seen: Seen, kind: string): void {
  expect(seen).toMatchObject({ copies: 1, oneTask: true, oneConfig: true, loader: { kind } });
  expect(seen.handlers.map(({ says, exportName }) => [says, exportName])).toEqual([
    ['a', 'a'],
    ['b', 'default'],
  ]);
}

describe.runIf(!strips)('a Node that does not strip types', () => {
  it('loads everything through jiti, with one copy of each module and of outlast', async () => {
    expectOneCopy(await setup(SHARED).run(), 'jiti');
  });

  it('accepts enum, await using and ./db.js for db.ts through jiti', async () => {
    const seen = await setup(BEYOND_STRIPPING).run();
    expect(seen).toMatchObject({ copies: 1, handlers: [{ says: 'red' }] });
  });

  it('loads the modules of a JSON config through jiti too', async () => {
    const { 'outlast.config.ts': _, ...files } = BEYOND_STRIPPING;
    const project = setup({ ...files, 'outlast.config.json': '{"tasks": ["./src/handlers/*"]}' });
    expect(await project.run()).toMatchObject({
      loader: { kind: 'jiti' },
      handlers: [{ says: 'red' }],
    });
  });

  it('explains how to install jiti when it is missing', async () => {
    const project = setup(SHARED, { jiti: false });
    for (const loader of [undefined, 'jiti']) {
      const seen = await project.run({ loader });
      expect(seen.code).toBe('ERR_CONFIG_LOAD');
      expect(seen.hint).toContain('npm i -D jiti');
      expect(seen.file).toBe(join(project.folder, 'outlast.config.ts'));
    }
  });

  it('does not fall back to jiti when native loading is requested', async () => {
    const seen = await setup(SHARED).run({ loader: 'native' });
    expect(seen.code).toBe('ERR_CONFIG_LOAD');
    expect(seen.hint).toContain('--loader jiti');
  });

  it('loads TypeScript handlers of a JavaScript config through jiti', async () => {
    const project = setup({
      ...SHARED,
      'outlast.config.ts': '',
      'my.config.js': `export default { tasks: ['src/handlers/b.ts'] };`,
    });
    const seen = await project.run({ file: 'my.config.js' });
    expect(seen).toMatchObject({ loader: { kind: 'jiti' }, handlers: [{ says: 'b' }] });
  });

  it('explains what to do when the config file computes which TypeScript it names', async () => {
    const project = setup({
      ...SHARED,
      'outlast.config.ts': '',
      'my.config.js': `export default { tasks: [['src', 'handlers', 'b.ts'].join('/')] };`,
    });
    const seen = await project.run({ file: 'my.config.js' });
    expect(seen).toMatchObject({
      code: 'ERR_HANDLER_NOT_LOADABLE',
      file: join(project.folder, 'src/handlers/b.ts'),
    });
    expect(seen.hint).toContain('--loader jiti');
  });
});

describe.runIf(NODE22 !== undefined)('a Node that strips types', () => {
  it('loads everything natively, with one copy of each module and of outlast', async () => {
    expectOneCopy(await setup(SHARED, { jiti: false }).run({}, NODE22), 'native');
  });

  it('loads everything through jiti when that is requested', async () => {
    expectOneCopy(await setup(SHARED).run({ loader: 'jiti' }, NODE22), 'jiti');
    const beyond = await setup(BEYOND_STRIPPING).run({ loader: 'jiti' }, NODE22);
    expect(beyond).toMatchObject({ copies: 1, handlers: [{ says: 'red' }] });
  });

  it.each([
    ['an enum', 'enum E { A } export const a = E;'],
    ['a .js path that means a .ts file', `import { pool } from '../db.js'; export const a = pool;`],
    ['a path without extension', `import { pool } from '../db'; export const a = pool;`],
    [
      'a type imported as a value',
      `import { Never } from '../never.ts'; export const a = null as unknown as Never;`,
    ],
    ['await using', 'export async function a() { await using b = null as never; void b; }'],
  ])('loads everything through jiti for %s, each module once', async (_what, text) => {
    const files = {
      ...SHARED,
      'src/handlers/a.ts': text,
      'src/never.ts': 'export type Never = never;',
    };
    // The config imports db.ts too: it must not have been evaluated before the choice.
    expect(await setup(files).run({}, NODE22)).toMatchObject({
      loader: { kind: 'jiti' },
      copies: 1,
      handlers: [{ says: 'b' }],
    });
    const alone = await setup(files, { jiti: false }).run({}, NODE22);
    expect(alone.code).toBe('ERR_HANDLER_NOT_LOADABLE');
    expect(alone.hint).toContain('Run `npm i -D jiti`');
  });

  it('does the same for the config file itself, and for a JSON config', async () => {
    const { 'outlast.config.ts': _, ...files } = BEYOND_STRIPPING;
    const [inCode, inJson] = await Promise.all(
      [
        setup({ 'outlast.config.ts': 'enum E { A } export default { strict: E.A === 0 };' }),
        setup({ ...files, 'outlast.config.json': '{"tasks": ["./src/handlers/*"]}' }),
      ].map(project => project.run({}, NODE22)),
    );
    expect(inCode).toMatchObject({ config: { strict: true }, loader: { kind: 'jiti' } });
    expect(inJson).toMatchObject({ copies: 1, handlers: [{ says: 'red' }] });
  });

  it('does not blame the loader for text that is not valid TypeScript', async () => {
    const seen = await setup({ 'outlast.config.ts': 'export default {{' }).run({}, NODE22);
    expect(seen.code).toBe('ERR_CONFIG_LOAD');
    expect(seen.hint).not.toContain('jiti');
  });
});

describe('tsx', () => {
  it('loads everything, once, although Node alone could not and jiti is there', async () => {
    const project = setup({ ...SHARED, 'src/handlers/a.ts': SHARED_BY_JS });
    const seen = await project.run({}, process.execPath, ['--import', TSX]);
    expectOneCopy(seen, 'native');
  });
});

describe('a config', () => {
  const HANDLER = `export const a = { ${BRAND}, says: 'a' };`;

  it('is found above the working directory, and its paths are relative to its own folder', async () => {
    const files = {
      'outlast.config.js': `export default { tasks: ['./h/*'] };`,
      'h/a.js': HANDLER,
      'deep/er/x': '',
    };
    const project = setup(files, { cwd: 'deep/er' });
    expect(await project.run()).toMatchObject({
      file: join(project.folder, 'outlast.config.js'),
      loader: { kind: 'native', base: join(project.folder, 'outlast.config.js') },
      handlers: [{ says: 'a', file: join(project.folder, 'h/a.js'), exportName: 'a' }],
    });
  });

  it('may be the outlast key of package.json', async () => {
    const manifest = '{"type": "module", "outlast": {"tasks": ["./h/*"]}}';
    const project = setup({ 'package.json': manifest, 'h/a.js': HANDLER });
    expect(await project.run()).toMatchObject({
      file: join(project.folder, 'package.json'),
      handlers: [{ says: 'a' }],
    });
  });

  it('needs a default export', async () => {
    const seen = await setup({ 'outlast.config.js': 'export const config = {};' }).run();
    expect(seen.code).toBe('ERR_CONFIG_LOAD');
    expect(seen.hint).toContain('export default defineConfig(');
  });

  it('needs an object as its default export', async () => {
    expect((await setup({ 'outlast.config.js': 'export default 5;' }).run()).code).toBe(
      'ERR_CONFIG_LOAD',
    );
  });

  it('that throws is reported with the cause', async () => {
    const seen = await setup({
      'outlast.config.js': `throw new Error('no database for you');`,
    }).run();
    expect(seen).toMatchObject({ code: 'ERR_CONFIG_LOAD', cause: 'no database for you' });
  });

  it('may be CommonJS by its name, and so may handlers', async () => {
    const project = setup({
      'outlast.config.cjs': `module.exports = { tasks: ['./h/*'] };`,
      'h/a.cjs': `const make = says => ({ ${BRAND}, says }); module.exports = { a: make('a'), b: make('b') };`,
    });
    expect((await project.run()).handlers).toMatchObject([
      { says: 'a', exportName: 'a' },
      { says: 'b', exportName: 'b' },
    ]);
  });

  it('may have been compiled to CommonJS, and so may handlers', async () => {
    const compiled = (name: string, value: string): string =>
      `Object.defineProperty(exports, '__esModule', { value: true }); exports['${name}'] = ${value};`;
    const project = setup({
      'package.json': '{}',
      'outlast.config.js': compiled('default', `{ tasks: ['./h/*'] }`),
      'h/a.js': compiled('a', `{ ${BRAND}, says: 'a' }`),
    });
    expect((await project.run()).handlers).toMatchObject([{ says: 'a', exportName: 'a' }]);
  });

  it('behind a symbolic link is the same module that its handlers import', async () => {
    const project = setup(SHARED);
    symlinkSync(project.folder, join(project.folder, 'link'));
    const seen = await project.run({ cwd: join(project.folder, 'link') });
    expect(seen).toMatchObject({
      copies: 1,
      oneConfig: true,
      handlers: [{ says: 'a' }, { says: 'b' }],
    });
  });
});

describe('handlers', () => {
  const CONFIG = { 'outlast.config.js': `export default { tasks: ['./h/*'] };` };

  it('are collected from every export, once each, ordered by file and name', async () => {
    const project = setup({
      ...CONFIG,
      'h/b.js': `
        export * from './c.js';
        export const b = Object.assign(() => 1, { ${BRAND}, says: 'b' });
        export const other = 5;`,
      'h/c.js': `
        export const c = { ${BRAND}, says: 'c' };
        export { c as again };
        export default c;
        export const none = null;`,
      'h/d.js': 'export const nothing = {};',
    });
    const seen = await project.run();
    expect(seen.handlers.map(({ says, file }) => [says, file.slice(-4)])).toEqual([
      ['c', 'b.js'],
      ['b', 'b.js'],
    ]);
  });

  it('in a module that does not load are reported with file and cause', async () => {
    const project = setup({ ...CONFIG, 'h/a.js': `throw new Error('no mail for you');` });
    expect(await project.run()).toMatchObject({
      code: 'ERR_HANDLER_NOT_LOADABLE',
      file: join(project.folder, 'h/a.js'),
      cause: 'no mail for you',
    });
  });

  it('are found again by a child process that gets the loader choice as data', async () => {
    const project = setup(SHARED);
    const { config, loader, handlers } = await project.run({ loader: 'jiti' });
    const child = await project.run({ inherit: { config, loader } });
    expect(child).toMatchObject({ loader, handlers, copies: 1 });
  });
});
