import { spawn, type ChildProcess } from 'node:child_process';
import { mkdirSync, mkdtempSync, realpathSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';

const ROOT = fileURLToPath(new URL('../../', import.meta.url));
const PROGRAM = join(ROOT, 'bin/outlast.js');
/** A command that hangs is a failure with its output, not a test that times out silently. */
const PATIENCE_MS = 120_000;

export interface Ended {
  readonly code: number | null;
  readonly signal: NodeJS.Signals | null;
  readonly stdout: string;
  readonly stderr: string;
}

/** One JSON document, as `--json` prints it. */
// oxlint-disable-next-line typescript/no-unnecessary-type-parameters -- the caller knows what it is
export const json = <T>(text: string): T => JSON.parse(text) as T;

export interface JsonError {
  readonly error: { readonly code: string; readonly message: string; readonly hint: string };
}

/** A user's project: a folder with Outlast installed, and the command line as a person types it there. */
export class CliProject {
  readonly folder: string;
  readonly #env: Readonly<Record<string, string>>;
  readonly #running = new Set<CliProcess>();

  constructor(
    files: Readonly<Record<string, string>> = {},
    env: Readonly<Record<string, string>> = {},
  ) {
    this.folder = realpathSync(mkdtempSync(join(tmpdir(), 'outlast-cli-')));
    this.#env = env;
    for (const [name, text] of Object.entries({ 'package.json': '{"type":"module"}', ...files })) {
      this.write(name, text);
    }
    mkdirSync(join(this.folder, 'node_modules'));
    symlinkSync(ROOT, join(this.folder, 'node_modules/outlast'));
    for (const name of ['pg', 'mysql2', 'zod', 'jiti']) {
      symlinkSync(join(ROOT, 'node_modules', name), join(this.folder, 'node_modules', name));
    }
  }

  write(name: string, text: string): void {
    const file = join(this.folder, name);
    mkdirSync(dirname(file), { recursive: true });
    writeFileSync(file, text);
  }

  /** Starts a command and lets it run. */
  start(args: readonly string[], env: Readonly<Record<string, string>> = {}): CliProcess {
    const started = new CliProcess(args, this.folder, { ...this.#env, ...env });
    this.#running.add(started);
    void started.ended.then(() => this.#running.delete(started));
    return started;
  }

  /** Runs a command to its end. */
  async run(...args: readonly string[]): Promise<Ended> {
    return await this.runWith({}, ...args);
  }

  async runWith(env: Readonly<Record<string, string>>, ...args: readonly string[]): Promise<Ended> {
    const started = this.start(args, env);
    const timer = setTimeout(() => started.signal('SIGKILL'), PATIENCE_MS);
    const ended = await started.ended;
    clearTimeout(timer);
    return ended;
  }

  async dispose(): Promise<void> {
    for (const started of this.#running) started.signal('SIGKILL');
    await Promise.all([...this.#running].map(started => started.ended));
    rmSync(this.folder, { recursive: true, force: true });
  }
}

/** A command that is running. */
export class CliProcess {
  readonly child: ChildProcess;
  readonly ended: Promise<Ended>;
  #stdout = '';
  #stderr = '';
  #onOutput: () => void = () => undefined;

  constructor(args: readonly string[], cwd: string, extra: Readonly<Record<string, string>>) {
    // The settings of the user who runs the tests must not reach the tested process.
    const own = Object.entries(process.env).filter(([name]) => !name.startsWith('OUTLAST_'));
    const env = { ...Object.fromEntries(own), ...extra };
    const stdio = ['ignore', 'pipe', 'pipe'] as const;
    this.child = spawn(process.execPath, [PROGRAM, ...args], { cwd, env, stdio: [...stdio] });
    this.child.stdout?.on('data', (part: Buffer) => (this.#stdout += part.toString()));
    this.child.stderr?.on('data', (part: Buffer) => {
      this.#stderr += part.toString();
      this.#onOutput();
    });
    this.ended = new Promise(resolve => {
      // Not `exit`: the last output may still be in the pipe.
      this.child.once('close', (code, signal) => {
        resolve({ code, signal, stdout: this.#stdout, stderr: this.#stderr });
        this.#onOutput();
      });
    });
  }

  get stderr(): string {
    return this.#stderr;
  }

  signal(name: NodeJS.Signals): void {
    this.child.kill(name);
  }

  /** Waits until this text appears on stderr, where logs go. */
  async says(text: string): Promise<void> {
    while (!this.#stderr.includes(text)) {
      if (this.child.exitCode !== null || this.child.signalCode !== null)
        throw new Error(`it ended without saying ${JSON.stringify(text)}: ${this.#stderr}`);
      await new Promise<void>(resolve => {
        this.#onOutput = resolve;
      });
    }
  }

  /** Sends a signal and waits for the end. */
  async stop(name: NodeJS.Signals = 'SIGTERM'): Promise<Ended> {
    this.signal(name);
    return await this.ended;
  }
}

/** `outlast.config.mjs` and handlers as a small shop would write them. */
export const SHOP: Readonly<Record<string, string>> = {
  'outlast.config.mjs': `
    import { defineConfig } from 'outlast';
    export default defineConfig({ tasks: ['./handlers.mjs'] });`,
  'handlers.mjs': `
    import pg from 'pg';
    import { z } from 'zod';
    import { createOutlast, discard, task, unchecked } from 'outlast';
    import { fromPg } from 'outlast/pg';
    import config from './outlast.config.mjs';
    const pool = new pg.Pool({ connectionString: process.env.OUTLAST_DATABASE_URL });
    const outlast = createOutlast({ ...config, adapter: fromPg(pool) });
    const order = task('shop.order', {
      input: z.object({ orderId: z.string(), cents: z.number().optional() }), result: z.string(),
    });
    export const orderHandler = outlast.handler(order, ({ orderId }) => 'order ' + orderId);
    const echo = task('shop.echo', { input: unchecked(), result: unchecked() });
    export const echoHandler = outlast.handler(echo, input => input);
    export const skipHandler = outlast.handler(task('shop.skip'), () => discard('nothing to do'));
    export const failHandler = outlast.handler(task('shop.fail', { input: unchecked() }), {
      retry: { maxAttempts: 1 },
      run: () => { throw new RangeError('a \\u001b[31mred\\u0007 \\u009b2J error'); },
    });`,
};
