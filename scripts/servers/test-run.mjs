// @ts-check
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { chmodSync, mkdirSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { findStrays, signalGroup, waitUntilGone } from './process-group.mjs';

/** How long a process may take to stop in its own way; RabbitMQ needs some seconds. */
const STOP_MS = 15_000;
const KILL_MS = 2_000;

/**
 * @typedef {import('node:child_process').ChildProcess & { pid: number }} RunningChild
 * @typedef {import('node:child_process').SpawnOptions & { stopSignal?: StopSignal }} StartOptions
 * @typedef {NodeJS.Signals | 'wait'} StopSignal `wait`: must not be interrupted, ends by itself
 */

/**
 * Everything that one run of the tests starts and writes: processes, each in a group of its own,
 * and one temporary folder. `close` ends and removes it all. Should this process be killed before
 * it can do so, the janitor notices that its pipe has closed and does the same.
 */
export class TestRun {
  folder;
  /** Environment variables for everything started here. @type {NodeJS.ProcessEnv} */
  env;
  /** Stop signals by process id. @type {Map<number, StopSignal>} */
  #groups = new Map();
  #janitor;
  /** @type {Promise<void> | null} */
  #closing = null;

  constructor() {
    this.folder = mkdtempSync(join(tmpdir(), 'outlast-test-'));
    // Servers that refuse to run as root must be able to enter, as other users.
    chmodSync(this.folder, 0o711);
    const scratch = join(this.folder, 'tmp');
    mkdirSync(scratch, { mode: 0o777 });
    chmodSync(scratch, 0o1777);
    // What tests forget in the temporary folder goes when ours goes.
    this.env = { ...process.env, TMPDIR: scratch };
    const janitor = fileURLToPath(new URL('./janitor.mjs', import.meta.url));
    this.#janitor = spawn(process.execPath, [janitor, this.folder], {
      stdio: ['pipe', 'ignore', 'inherit'],
      detached: true,
    });
  }

  /** Commands that fail from now on fail because they were ended. */
  get isClosing() {
    return this.#closing !== null;
  }

  /**
   * Starts a process that `close` will stop with `stopSignal`.
   * @param {string} command
   * @param {readonly string[]} args
   * @param {StartOptions} [options]
   * @returns {Promise<RunningChild>}
   */
  async start(command, args, { stopSignal = 'SIGTERM', ...options } = {}) {
    if (this.#closing !== null) throw new Error('the run is being closed');
    // A group of its own: Ctrl-C in the terminal must not stop servers under running tests.
    const child = spawn(command, args, { env: this.env, ...options, detached: true });
    const { pid } = child;
    if (pid === undefined) {
      const [error] = await once(child, 'error');
      throw error;
    }
    // Not after an await: a signal in between would close the run without this process.
    this.#groups.set(pid, stopSignal);
    if (stopSignal !== 'wait') this.#tellJanitor({ add: pid, signal: stopSignal });
    return Object.assign(child, { pid });
  }

  /**
   * Runs a command to its end and returns its exit code; 1 when a signal ended it.
   * @param {string} command
   * @param {readonly string[]} args
   * @param {StartOptions} [options]
   */
  async run(command, args, options) {
    const child = await this.start(command, args, options);
    if (child.exitCode === null && child.signalCode === null) await once(child, 'exit');
    // Whatever the command left behind in its group is ended by nothing else.
    signalGroup(child.pid, 'SIGKILL');
    this.#forget(child.pid);
    return child.exitCode ?? 1;
  }

  /** Stops everything and removes the folder. May be called more than once. */
  close() {
    this.#closing ??= this.#close();
    return this.#closing;
  }

  async #close() {
    await Promise.all([...this.#groups].map(([pid, signal]) => this.#stop(pid, signal)));
    for (const { pid, command } of findStrays(this.folder)) {
      console.error(`Left behind by a test, ended now: ${pid} ${command}`);
      process.kill(pid, 'SIGKILL');
    }
    rmSync(this.folder, { recursive: true, force: true, maxRetries: 5 });
    this.#janitor.stdin.end();
    if (this.#janitor.exitCode === null) await once(this.#janitor, 'exit');
  }

  /**
   * @param {number} pid
   * @param {StopSignal} signal
   */
  async #stop(pid, signal) {
    if (signal === 'wait') {
      await waitUntilGone(pid, Infinity);
      return;
    }
    signalGroup(pid, signal);
    if (!(await waitUntilGone(pid, STOP_MS))) {
      signalGroup(pid, 'SIGKILL');
      await waitUntilGone(pid, KILL_MS);
    }
    this.#forget(pid);
  }

  /** @param {number} pid */
  #forget(pid) {
    this.#groups.delete(pid);
    this.#tellJanitor({ remove: pid });
  }

  /** @param {object} message */
  #tellJanitor(message) {
    this.#janitor.stdin.write(`${JSON.stringify(message)}\n`);
  }
}
