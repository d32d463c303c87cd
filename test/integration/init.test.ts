import { execFile } from 'node:child_process';
import {
  cpSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  readdirSync,
  readlinkSync,
  realpathSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { describe, expect, it, onTestFinished } from 'vitest';
import { LIBRARIES } from '../../src/init/libraries.ts';
import { initProject } from '../../src/init/init-project.ts';
import { CliProject, json } from '../support/cli-project.ts';
import { withDatabase } from '../support/servers.ts';

const ROOT = fileURLToPath(new URL('../../', import.meta.url));
const TSX = import.meta.resolve('tsx');

function project(manifest: object, files: Readonly<Record<string, string>> = {}): CliProject {
  const made = new CliProject({ 'package.json': JSON.stringify(manifest), ...files });
  onTestFinished(() => made.dispose());
  return made;
}

interface Report {
  readonly files: readonly {
    readonly path: string;
    readonly status: string;
    readonly existing: string | null;
    readonly text?: string;
  }[];
  readonly next_steps: readonly string[];
}

/** Writes, migrates, starts a worker, sends: what the next steps say. */
async function runWritten(made: CliProject, sender: readonly string[]): Promise<string> {
  const database = await withDatabase('init');
  onTestFinished(() => database.drop());
  const env = { OUTLAST_DATABASE_URL: database.url };
  expect(await made.run('init')).toMatchObject({ code: 0, stderr: '' });
  expect(await made.runWith(env, 'migrate')).toMatchObject({ code: 0, stderr: '' });
  const worker = made.start(['worker'], env);
  const { stdout } = await promisify(execFile)(process.execPath, sender, {
    cwd: made.folder,
    env: { ...process.env, ...env },
  });
  worker.signal('SIGTERM');
  expect((await worker.ended).code).toBe(0);
  return stdout;
}

describe('what outlast init wrote runs', () => {
  it('in TypeScript, with pg and zod', async () => {
    const made = project({ type: 'module', dependencies: { typescript: '1', pg: '8', zod: '4' } });
    const said = await runWritten(made, ['--import', TSX, 'src/send-hello.ts']);
    expect(said).toBe('Hello, world!\n');
    expect(readFileSync(join(made.folder, 'src/tasks.ts'), 'utf8')).toContain('z.object');
  });

  it('as ES modules, with postgres.js and no library for schemas', async () => {
    const made = project({ type: 'module', dependencies: { postgres: '3', pg: '8' } });
    symlinkSync(join(ROOT, 'node_modules/postgres'), join(made.folder, 'node_modules/postgres'));
    expect(await runWritten(made, ['src/send-hello.js'])).toBe('Hello, world!\n');
  });

  it('as CommonJS, with pg', async () => {
    const made = project({ dependencies: { pg: '8' } });
    const args = ['--disable-warning=ExperimentalWarning', 'src/send-hello.js'];
    expect(await runWritten(made, args)).toBe('Hello, world!\n');
  });

  it('is accepted by the compiler, for every library on every database', async () => {
    const folder = realpathSync(mkdtempSync(join(tmpdir(), 'outlast-init-types-')));
    onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
    linkAll(join(ROOT, 'node_modules'), join(folder, 'node_modules'));
    symlinkSync(ROOT, join(folder, 'node_modules/outlast'));
    const cases = LIBRARIES.flatMap(({ name, dialects }) =>
      dialects.map(dialect => ({ library: name, dialect })),
    );
    for (const { library, dialect } of cases) {
      const own = join(folder, `${library}-${dialect}`);
      mkdirSync(own);
      const dependencies = { typescript: '1', ...(library === 'pg' ? { zod: '4' } : {}) };
      writeFileSync(join(own, 'package.json'), JSON.stringify({ type: 'module', dependencies }));
      if (library === 'prisma')
        cpSync(join(ROOT, 'test/support/prisma', dialect), join(own, 'prisma'), {
          recursive: true,
        });
      const { files } = initProject(own, { library, dialect, writes: true });
      expect(files.map(({ status }) => status)).toEqual(files.map(() => 'written'));
    }
    const compilerOptions = {
      module: 'nodenext',
      target: 'es2023',
      strict: true,
      exactOptionalPropertyTypes: true,
      noUncheckedIndexedAccess: true,
      allowImportingTsExtensions: true,
      skipLibCheck: true,
      noEmit: true,
      types: ['node'],
    };
    const include = cases.flatMap(({ library, dialect }) => [
      `${library}-${dialect}/*.ts`,
      `${library}-${dialect}/src/**/*.ts`,
    ]);
    writeFileSync(join(folder, 'tsconfig.json'), JSON.stringify({ compilerOptions, include }));
    const tsc = join(ROOT, 'node_modules/.bin/tsc');
    const said = await promisify(execFile)(tsc, ['-p', folder], { cwd: folder }).catch(
      (error: unknown) => error as { stdout: string },
    );
    expect(said.stdout).toBe('');
  });
});

/** Every package of a folder, those of scopes one by one. */
function linkAll(from: string, to: string): void {
  mkdirSync(to);
  for (const name of readdirSync(from)) {
    if (name.startsWith('@')) linkAll(join(from, name), join(to, name));
    else symlinkSync(join(from, name), join(to, name));
  }
}

describe('outlast init', () => {
  const MINE = '// mine\n';

  it('writes over nothing, says what exists, and what it would have written', async () => {
    const made = project(
      { type: 'module', dependencies: { pg: '8' } },
      { 'outlast.config.mjs': MINE, 'src/tasks.ts': MINE, 'docker-compose.yml': MINE },
    );
    symlinkSync('/nowhere/else.js', join(made.folder, 'src/outlast.js'));
    const ended = await made.run('init');
    expect(ended.code).toBe(0);
    for (const name of ['outlast.config.mjs', 'src/tasks.ts', 'docker-compose.yml']) {
      expect(ended.stdout).toContain(`exists, left as it is: ${name}`);
      expect(readFileSync(join(made.folder, name), 'utf8')).toBe(MINE);
    }
    expect(ended.stdout).toContain('exists, left as it is: src/outlast.js');
    expect(readlinkSync(join(made.folder, 'src/outlast.js'))).toBe('/nowhere/else.js');
    expect(ended.stdout).toContain('wrote src/send-hello.js');
    expect(existsSync(join(made.folder, 'compose.yaml'))).toBe(false);
    const again = json<Report>((await made.run('init', '--json')).stdout);
    expect(again.files.map(({ status }) => status)).toEqual(again.files.map(() => 'exists'));
  });

  it('writes nothing with --dry-run and with --print', async () => {
    const made = project({ type: 'module', dependencies: { mysql2: '3', express: '5' } });
    const before = readdirSync(made.folder);
    const dry = await made.run('init', '--dry-run');
    expect(dry.stdout).toContain('found: mysql2, MySQL or MariaDB, Express, ES modules');
    expect(dry.stdout).toContain('would write src/handlers/say-hello.js');
    expect(dry.stdout).toContain('npm i outlast ioredis');
    expect((await made.run('init', '--print')).stdout).toContain('adapter: fromMysql2(pool)');
    const { files } = json<Report>((await made.run('init', '--print', '--json')).stdout);
    expect(files.at(-1)).toMatchObject({ path: 'compose.yaml', status: 'planned' });
    expect(files.at(-1)?.text).toContain('noeviction');
    expect(readdirSync(made.folder)).toEqual(before);
  });
});
