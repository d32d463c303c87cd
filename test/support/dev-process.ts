import { execFile, spawn, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import type { Snapshot, TaskView } from '../../src/dev/view.ts';
import { placeEmbedded } from './embedded.ts';

export const ROOT: string = fileURLToPath(new URL('../../', import.meta.url));
const PROGRAM = `${ROOT}bin/outlast.js`;
/** Starting takes seconds on a loaded machine: PGlite makes its first database. */
const PATIENCE_MS = 150_000;

export interface Ended {
  readonly code: number | null;
  readonly stdout: string;
  readonly stderr: string;
}

/** The user's own settings must not reach the tested process. */
function cleanEnv(extra: Readonly<Record<string, string>>): NodeJS.ProcessEnv {
  const own = Object.entries(process.env).filter(([name]) => !name.startsWith('OUTLAST_'));
  return { ...Object.fromEntries(own), ...extra };
}

/** Runs a command to its end. */
export function outlast(folder: string, ...args: readonly string[]): Promise<Ended> {
  const options = { cwd: folder, env: cleanEnv({}), timeout: PATIENCE_MS };
  return new Promise(resolve => {
    const child = execFile(process.execPath, [PROGRAM, ...args], options, (_, stdout, stderr) =>
      resolve({ code: child.exitCode, stdout, stderr }),
    );
  });
}

export interface StartOptions {
  readonly args?: readonly string[];
  readonly env?: Readonly<Record<string, string>>;
}

/** A real `outlast dev`, seen through its page. */
export class DevProcess {
  readonly #child: ChildProcess;
  readonly ended: Promise<Ended>;
  #stdout = '';
  #stderr = '';
  address = '';

  private constructor(folder: string, { args = ['--port', '0'], env = {} }: StartOptions) {
    this.#child = spawn(process.execPath, [PROGRAM, 'dev', ...args], {
      cwd: folder,
      env: cleanEnv(env),
      stdio: ['ignore', 'pipe', 'pipe'],
    });
    this.#child.stderr?.on('data', (part: Buffer) => (this.#stderr += part.toString()));
    this.ended = new Promise(resolve => {
      const tell = (code: number | null): void =>
        resolve({ code, stdout: this.#stdout, stderr: this.#stderr });
      // Not `close`: orphaned workers keep the pipes open for a while.
      this.#child.once('exit', tell);
    });
  }

  static async start(folder: string, options: StartOptions = {}): Promise<DevProcess> {
    if (options.env?.['OUTLAST_DATABASE_URL'] === undefined)
      placeEmbedded(join(folder, '.outlast'));
    const dev = new DevProcess(folder, options);
    dev.address = await dev.#readAddress();
    return dev;
  }

  get pid(): number {
    return this.#child.pid ?? 0;
  }

  get stdout(): string {
    return this.#stdout;
  }

  get stderr(): string {
    return this.#stderr;
  }

  /** Waits until its log has this text, so many times. */
  async says(text: string, times = 1): Promise<void> {
    while (this.#stderr.split(text).length <= times) {
      const next = this.#child.stderr && once(this.#child.stderr, 'data');
      const ended = this.ended.then(({ stderr }) => {
        throw new Error(`outlast dev ended without saying ${text}: ${stderr}`);
      });
      await Promise.race([next, ended]);
    }
  }

  signal(name: NodeJS.Signals): void {
    this.#child.kill(name);
  }

  /** Stops it whatever state it is in. */
  async stop(): Promise<void> {
    if (this.#child.exitCode !== null || this.#child.signalCode !== null) return;
    this.signal('SIGTERM');
    await this.ended;
  }

  async state(): Promise<Snapshot> {
    const answer = await fetch(`${this.address}/api/state`);
    return (await answer.json()) as Snapshot;
  }

  /** Follows the live view until it shows what is asked for. */
  async until(what: string, isSo: (snapshot: Snapshot) => boolean): Promise<Snapshot> {
    const ending = new AbortController();
    const timer = setTimeout(() => ending.abort(), PATIENCE_MS);
    let last: Snapshot | undefined;
    try {
      const answer = await fetch(`${this.address}/api/live`, { signal: ending.signal });
      for await (const snapshot of readSnapshots(answer)) {
        last = snapshot;
        if (isSo(snapshot)) return snapshot;
      }
    } catch (error) {
      throw new Error(`waited in vain for ${what}; last seen ${JSON.stringify(last)}`, {
        cause: error,
      });
    } finally {
      clearTimeout(timer);
      ending.abort();
    }
    throw new Error(`the live view ended before ${what}`);
  }

  /** Waits for a task to be as asked. */
  async untilTask(id: string, what: string, isSo: (task: TaskView) => boolean): Promise<TaskView> {
    const find = ({ tasks }: Snapshot): TaskView | undefined =>
      tasks.find(task => task.id === id && isSo(task));
    return find(
      await this.until(`${id} ${what}`, snapshot => find(snapshot) !== undefined),
    ) as TaskView;
  }

  /** Presses a button of the page. */
  async post(
    path: string,
    body: object,
    headers: Readonly<Record<string, string>> = {},
  ): Promise<Response> {
    return await fetch(`${this.address}${path}`, {
      method: 'POST',
      headers: { 'content-type': 'application/json', origin: this.address, ...headers },
      body: JSON.stringify(body),
    });
  }

  async order(more: object = {}): Promise<{ orderId: string; taskId: string; message: string }> {
    const answer = await this.post('/api/orders', { customer: 'Ada', item: 'teapot', ...more });
    return (await answer.json()) as { orderId: string; taskId: string; message: string };
  }

  /** The address, as soon as it is printed. */
  async #readAddress(): Promise<string> {
    const printed = new Promise<string>(resolve => {
      this.#child.stdout?.on('data', (part: Buffer) => {
        this.#stdout += part.toString();
        const address = /(http:\/\/\S+)\n/.exec(this.#stdout)?.[1];
        if (address !== undefined) resolve(address);
      });
    });
    const timer = setTimeout(() => this.signal('SIGKILL'), PATIENCE_MS);
    const failed = this.ended.then(({ stderr }) => {
      throw new Error(`outlast dev printed no address: ${stderr}`);
    });
    try {
      return await Promise.race([printed, failed]);
    } finally {
      clearTimeout(timer);
      failed.catch(() => undefined);
    }
  }
}

/** The pictures of a live view, one by one. */
async function* readSnapshots({ body }: Response): AsyncGenerator<Snapshot> {
  const decoder = new TextDecoder();
  let text = '';
  for await (const part of body as unknown as AsyncIterable<Uint8Array>) {
    const lines = (text + decoder.decode(part, { stream: true })).split('\n');
    text = lines.pop() ?? '';
    for (const line of lines) {
      if (line.startsWith('data: ')) yield JSON.parse(line.slice('data: '.length)) as Snapshot;
    }
  }
}

/** A process that has ended but was not waited for is not alive. */
export function isAlive(pid: number): boolean {
  try {
    return !/^\d+ \(.*\) [ZX] /s.test(readFileSync(`/proc/${pid}/stat`, 'utf8'));
  } catch {
    return false;
  }
}
