// @ts-check
import { execFileSync } from 'node:child_process';
import { chownSync, closeSync, mkdirSync, openSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { waitUntilReady } from './readiness.mjs';

/** A slow machine with two cores needs half of this for RabbitMQ. */
const READY_MS = 90_000;
const LOG_LINES = 30;

/**
 * One server of our own: its folder, its ports, its user, its log. The table of servers says with
 * which commands it is made.
 */
export class PrivateServer {
  name;
  binary;
  folder;
  /** @type {readonly number[]} */
  ports;
  /** Whether what it has answered survives a power cut: tests need not wait for the disk, measurements must. */
  isDurable;
  #run;
  #log;
  #ids;

  /**
   * @param {import('./test-run.mjs').TestRun} run
   * @param {{ name: string, binary: string, ports: readonly number[], user: string | null, isDurable: boolean }} what
   *   `user`: who runs it when we are root
   */
  constructor(run, { name, binary, ports, user, isDurable }) {
    this.name = name;
    this.binary = binary;
    this.ports = ports;
    this.isDurable = isDurable;
    this.folder = join(run.folder, name);
    this.#run = run;
    this.#log = join(run.folder, `${name}.log`);
    this.#ids = user === null ? null : idsOf(user);
    this.makeFolder('.');
  }

  /** @param {number} index */
  port(index = 0) {
    const port = this.ports[index];
    if (port === undefined) throw new Error(`${this.name} asked for ${this.ports.length} ports`);
    return port;
  }

  /**
   * A folder that the server's user owns.
   * @param {string} name
   */
  makeFolder(name) {
    const path = join(this.folder, name);
    mkdirSync(path, { recursive: true, mode: 0o700 });
    if (this.#ids !== null) chownSync(path, this.#ids.uid, this.#ids.gid);
    return path;
  }

  /**
   * Runs a command that prepares the server.
   * @param {string} command
   * @param {readonly string[]} args
   */
  async prepare(command, args) {
    const code = await this.#withLog(options => this.#run.run(command, args, options));
    if (code !== 0) throw new Error(`${command} ended with ${code}\n${this.#logTail()}`);
  }

  /**
   * Starts the server or a process it needs.
   * @param {string} command
   * @param {readonly string[]} args
   * @param {{ stopSignal?: NodeJS.Signals, env?: Record<string, string> }} [how]
   */
  async spawn(command, args, { stopSignal, env } = {}) {
    return await this.#withLog(options =>
      this.#run.start(command, args, {
        ...options,
        ...(stopSignal === undefined ? {} : { stopSignal }),
        env: { ...options.env, ...env },
      }),
    );
  }

  /**
   * Waits until the server answers.
   * @param {import('./test-run.mjs').RunningChild} child
   * @param {import('./readiness.mjs').Question} question
   */
  async ready(child, question) {
    const hasFailed = () => child.exitCode !== null || child.signalCode !== null;
    try {
      await waitUntilReady(this.port(), question, { withinMs: READY_MS, hasFailed });
    } catch (error) {
      throw new Error(`${this.name} did not start\n${this.#logTail()}`, { cause: error });
    }
  }

  /**
   * @template T
   * @param {(options: import('./test-run.mjs').StartOptions) => Promise<T>} start
   */
  async #withLog(start) {
    const log = openSync(this.#log, 'a');
    try {
      return await start({
        // The working directory of the tests may be closed to the server's user.
        cwd: this.folder,
        stdio: ['ignore', log, log],
        env: { ...this.#run.env, LC_ALL: 'C', HOME: this.folder },
        ...this.#ids,
      });
    } finally {
      closeSync(log);
    }
  }

  #logTail() {
    return readFileSync(this.#log, 'utf8').trimEnd().split('\n').slice(-LOG_LINES).join('\n');
  }
}

/**
 * The ids to run as, or null when we are not root and so run everything as ourselves.
 * @param {string} user
 */
function idsOf(user) {
  if (process.getuid?.() !== 0) return null;
  /** @param {string} flag */
  const id = flag => Number(execFileSync('id', [flag, user], { encoding: 'utf8' }));
  return { uid: id('-u'), gid: id('-g') };
}
