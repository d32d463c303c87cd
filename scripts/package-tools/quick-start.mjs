// @ts-check
/** The quick start of the README in an empty folder, as a person would do it. */
import { once } from 'node:events';
import { cpSync, mkdirSync, mkdtempSync, readFileSync, readdirSync, writeFileSync } from 'node:fs';
import { delimiter, dirname, join } from 'node:path';
import { Client } from 'pg';
import { ROOT } from '../prepare.mjs';
import { nodeBinary } from './matrix.mjs';

/**
 * @typedef {import('../servers/test-run.mjs').TestRun} TestRun
 * @typedef {import('./matrix.mjs').Cell} Cell
 */

const COMMONJS = join(ROOT, 'examples', '02-commonjs');
/** A command that hangs is a failure with its output. Installing waits for a network. */
const PATIENCE_MS = 300_000;

/** The quick start, as the README has it. */
function readQuickStart() {
  const readme = readFileSync(join(ROOT, 'README.md'), 'utf8');
  const [text = ''] = /^## Quick start$[^]*?^## /m.exec(readme) ?? [];
  const lines = [...text.matchAll(/^```sh\n([^]*?)^```$/gm)].flatMap(([, block = '']) =>
    block.trim().split('\n'),
  );
  const commands = lines.map(line => line.replace(/ +#.*$/, ''));
  const files = [...text.matchAll(/^```js\n(\/\/ (\S+): [^]*?)^```$/gm)];
  const [, output = ''] = /^```text\n([^]*?)^```$/m.exec(text) ?? [];
  return { commands, files: files.map(([, code = '', path = '']) => ({ path, code })), output };
}

/**
 * Throws with all output when a step does something else than the README says.
 * @param {TestRun} run
 * @param {Cell} cell
 * @param {string} tarball
 */
export async function runQuickStart(run, cell, tarball) {
  const { commands, files, output } = readQuickStart();
  const [install = '', , migrate = '', dev = '', placeOrder = ''] = commands;
  const session = new Session(run, cell, await makeDatabase(run));
  await session.command(install.replace(' outlast ', ` ${tarball} `));
  if (cell.kind.name === 'esm') for (const { path, code } of files) session.write(path, code);
  else session.copy(COMMONJS);
  await session.command(checkEntryPoints(session, cell));
  await session.command(migrate);
  const service = await session.start(dev);
  await service.says('Outlast dev is running at');
  const said = await session.command(placeOrder.replace('mjs', cell.kind.extension));
  if (said !== output) throw new Error(`it says ${said} and the README ${output}`);
  await service.stop();
}

/**
 * Every entry point loads, without a driver or a test library.
 * @param {Session} session
 * @param {Cell} cell
 */
function checkEntryPoints(session, { kind }) {
  const { exports } = JSON.parse(readFileSync(join(ROOT, 'package.json'), 'utf8'));
  const names = Object.keys(exports)
    .filter(path => path !== './testing/vitest')
    .map(path => join('outlast', path));
  const load = kind.name === 'esm' ? 'await import' : 'require';
  const json = kind.name === 'esm' ? `, { with: { type: 'json' } }` : '';
  const lines = names.map(name => `${load}('${name}'${name.endsWith('.json') ? json : ''});\n`);
  session.write(`load.${kind.extension}`, lines.join(''));
  return `node --disable-warning=ExperimentalWarning load.${kind.extension}`;
}

/** @param {TestRun} run */
async function makeDatabase(run) {
  const url = new URL(run.env['OUTLAST_TEST_POSTGRES_URL'] ?? '');
  const client = new Client({ connectionString: url.href });
  await client.connect();
  const name = `package_${process.pid}_${Math.random().toString(36).slice(2)}`;
  await client.query(`create database ${name}`);
  await client.end();
  url.pathname = name;
  return url.href;
}

/** An empty folder and a terminal in it. */
class Session {
  #run;
  #cell;
  #folder;
  #env;

  /**
   * @param {TestRun} run
   * @param {Cell} cell
   * @param {string} database
   */
  constructor(run, cell, database) {
    this.#run = run;
    this.#cell = cell;
    this.#folder = mkdtempSync(join(run.folder, 'tmp', 'quick-start-'));
    const { manager, node } = cell;
    // What npm, our own tests and the user's Outlast have set must not reach the quick start.
    const isForeign = (/** @type {string} */ name) => /^(npm_|OUTLAST_|NODE_OPTIONS)/.test(name);
    const own = Object.entries(run.env).filter(([name]) => !isForeign(name));
    const path = [dirname(nodeBinary(node) ?? ''), manager.folder, process.env['PATH']];
    const shared = join(run.folder, manager.name);
    // Two runs of the old yarn at once would unpack into one folder.
    const cache = join(this.#folder, '.cache');
    this.#env = {
      ...Object.fromEntries(own),
      PATH: path.filter(Boolean).join(delimiter),
      OUTLAST_DATABASE_URL: database,
      XDG_DATA_HOME: shared,
      XDG_CACHE_HOME: shared,
      YARN_CACHE_FOLDER: manager.name === 'yarn1' ? cache : join(shared, 'cache'),
      YARN_GLOBAL_FOLDER: join(shared, 'global'),
      YARN_ENABLE_TELEMETRY: '0',
    };
    const isOld = node === 'node20' && cell.kind.name === 'cjs';
    const files = { ...manager.files, ...(isOld ? manager.filesBeforeNode22 : {}) };
    for (const [name, text] of Object.entries(files)) this.write(name, text);
  }

  /**
   * @param {string} path
   * @param {string} text
   */
  write(path, text) {
    const file = join(this.#folder, path);
    mkdirSync(dirname(file), { recursive: true });
    writeFileSync(file, text);
  }

  /** @param {string} folder */
  copy(folder) {
    for (const name of readdirSync(folder))
      if (name !== 'package.json' && name !== 'node_modules')
        cpSync(join(folder, name), join(this.#folder, name), { recursive: true });
  }

  /**
   * Runs a command to its end and returns what it wrote on standard output.
   * @param {string} command
   */
  async command(command) {
    const started = await this.start(command);
    return await started.finished();
  }

  /** @param {string} command of the README */
  async start(command) {
    const line = this.#cell.manager.translate(command);
    const child = await this.#run.start('sh', ['-c', `exec ${line}`], {
      cwd: this.#folder,
      env: this.#env,
      stdio: ['ignore', 'pipe', 'pipe'],
    });
    return new Command(line, child);
  }
}

class Command {
  #line;
  #child;
  #closed;
  #stdout = '';
  #stderr = '';

  /**
   * @param {string} line
   * @param {import('../servers/test-run.mjs').RunningChild} child
   */
  constructor(line, child) {
    this.#line = line;
    this.#child = child;
    child.stdout?.on('data', part => (this.#stdout += String(part)));
    child.stderr?.on('data', part => (this.#stderr += String(part)));
    this.#closed = once(child, 'close');
  }

  async finished() {
    const timer = setTimeout(() => this.#signal('SIGKILL'), PATIENCE_MS);
    const [code] = await this.#closed;
    clearTimeout(timer);
    if (code !== 0) throw new Error(this.#report(`ended with ${code}`));
    return this.#stdout;
  }

  /** @param {string} text */
  async says(text) {
    const timer = setTimeout(() => this.#signal('SIGKILL'), PATIENCE_MS);
    while (!this.#stdout.includes(text)) {
      const ended = this.#closed.then(() => 'ended');
      if (
        (await Promise.race([once(this.#child.stdout ?? this.#child, 'data'), ended])) === 'ended'
      )
        throw new Error(this.#report(`ended without saying ${text}`));
    }
    clearTimeout(timer);
  }

  /** Ctrl-C, as a terminal gives it to the whole group. */
  async stop() {
    this.#signal('SIGINT');
    const timer = setTimeout(() => this.#signal('SIGKILL'), PATIENCE_MS);
    await this.#closed;
    clearTimeout(timer);
  }

  /** @param {NodeJS.Signals} name */
  #signal(name) {
    try {
      process.kill(-this.#child.pid, name);
    } catch {
      // It has ended.
    }
  }

  /** @param {string} what */
  #report(what) {
    return `${this.#line}: ${what}\n${this.#stdout}${this.#stderr}`;
  }
}
