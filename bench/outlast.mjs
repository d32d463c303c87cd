// @ts-check
/** Outlast as its users have it: the public names and the command line of this checkout's build. */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, readFileSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';

export { createOutlast, task, unchecked } from '../dist/index.js';
export { fromPg } from '../dist/adapters/transactions/pg.js';

const PROGRAM = fileURLToPath(new URL('../bin/outlast.js', import.meta.url));

/** @type {string} */
export const VERSION = JSON.parse(
  readFileSync(new URL('../package.json', import.meta.url), 'utf8'),
).version;

/**
 * What `outlast.config.json` may say; as much of it as is used here.
 * @typedef {object} Config
 * @property {string} database
 * @property {string | { url: string, queueType?: string }} [broker]
 * @property {Record<string, { database: string }>} [outboxes]
 * @property {string} [ledger]
 * @property {{ staleTimeoutSeconds: number, sendTimeout: string }} [relay]
 * @property {readonly string[]} [tasks]
 */

/**
 * Starts `outlast` with these settings and no others.
 * @param {readonly string[]} args
 * @param {Config} config
 * @param {Readonly<Record<string, string>>} [extra] variables for its handlers
 */
export function startCli(args, config, extra = {}) {
  const file = join(mkdtempSync(join(tmpdir(), 'outlast-bench-')), 'outlast.config.json');
  writeFileSync(file, JSON.stringify(config));
  const env = Object.entries(process.env).filter(([name]) => !name.startsWith('OUTLAST_'));
  const child = spawn(process.execPath, [PROGRAM, ...args, '--config', file], {
    env: { ...Object.fromEntries(env), ...extra },
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  let output = '';
  let errors = '';
  child.stdout.on('data', part => (output += part));
  child.stderr.on('data', part => (errors += part));
  const ended = once(child, 'close').then(([code]) => {
    if (code !== 0 && child.signalCode === null)
      throw new Error(`outlast ${args.join(' ')} ended with ${code}: ${errors.trim()}`);
    return output;
  });
  // The code that stops it looks at `ended` late or never.
  ended.catch(() => undefined);
  return { child, ended };
}

/**
 * Runs `outlast` to its end; what it printed.
 * @param {readonly string[]} args
 * @param {Config} config
 */
export const runCli = (args, config) => startCli(args, config).ended;

/** Memory of a process that runs; null when it has ended, or where the system does not tell. @param {number | undefined} pid */
export function residentMb(pid) {
  try {
    const line = /VmRSS:\s+(\d+) kB/.exec(readFileSync(`/proc/${pid}/status`, 'utf8'));
    return line === null ? null : Number(line[1]) / 1024;
  } catch {
    return null;
  }
}
