// @ts-check
/**
 * What must be true before anything here can run: the right Node, the packages of the lockfile, a
 * fresh build. Runs on a bare clone, so it may use nothing but Node itself.
 */
import { spawn } from 'node:child_process';
import { existsSync, readFileSync, readdirSync, rmSync, statSync, utimesSync } from 'node:fs';
import { constants } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';

/** The folder of package.json. */
export const ROOT = fileURLToPath(new URL('..', import.meta.url));

const BUILD_INFO = join(ROOT, 'dist', '.tsbuildinfo');

/** A failure whose message is all that a person needs; the scripts print it without a stack. */
export class PrepareError extends Error {}

/** An older Node fails later, with an error about syntax that does not say why. */
export function requireNode() {
  const [major = 0, minor = 0] = process.versions.node.split('.').map(Number);
  if (major > 20 || (major === 20 && minor >= 19)) return;
  throw new PrepareError(`Outlast needs Node 20.19 or newer; this is ${process.versions.node}.`);
}

/**
 * Makes node_modules hold what package-lock.json names.
 * @param {{ output?: number, folder?: string }} [options] `output`: the descriptor that gets the messages; `folder`: that
 *   of another package
 */
export async function ensureInstalled({ output = 2, folder = ROOT } = {}) {
  if (isInstalled(folder)) return;
  // NODE_ENV=production would leave the compiler out, and some setups omit the optional packages
  // in which the native compiler and linter come.
  const flags = [
    '--ignore-scripts',
    '--no-audit',
    '--no-fund',
    '--include=dev',
    '--include=optional',
  ];
  say('Installing packages (npm ci) ...');
  if ((await run('npm', ['ci', ...flags], { output, folder })) === 0) return;
  say('npm ci failed (see above). Trying npm install, which also repairs an outdated lockfile ...');
  if ((await run('npm', ['install', '--no-save', ...flags], { output, folder })) === 0) return;
  throw new PrepareError(
    'The packages could not be installed. Is the npm registry reachable from here (npm ping)?\n' +
      'On a machine without network copy node_modules from one with the same platform.',
  );
}

/**
 * Compares contents, not times: a checkout touches package-lock.json without changing it, and
 * npm writes both files in no fixed order.
 * @param {string} folder
 */
function isInstalled(folder) {
  const installed = readPackages(join(folder, 'node_modules', '.package-lock.json'));
  const wanted = readPackages(join(folder, 'package-lock.json'));
  if (installed === null) return false;
  if (wanted === null) return true;
  return Object.entries(wanted).every(([path, { version, optional, devOptional }]) => {
    if (path === '') return true;
    const found = installed[path];
    // Packages for other platforms are optional and rightly absent.
    if (found === undefined) return optional === true || devOptional === true;
    return found.version === version;
  });
}

/**
 * @typedef {{ version?: string, optional?: boolean, devOptional?: boolean }} LockedPackage
 * @param {string} file
 * @returns {Record<string, LockedPackage> | null}
 */
function readPackages(file) {
  if (!existsSync(file)) return null;
  try {
    return JSON.parse(readFileSync(file, 'utf8')).packages ?? null;
  } catch {
    // An interrupted install leaves half a file: the same as none.
    return null;
  }
}

/**
 * Builds dist when it is missing or older than its sources.
 * @param {{ output?: number }} [options] `output`: the descriptor that gets the messages
 */
export async function ensureBuilt({ output = 2 } = {}) {
  if (isBuilt()) return;
  say('Building ...');
  const isGood = (await run('npm', ['run', '--silent', 'build'], { output })) === 0;
  recordBuild(isGood);
  if (!isGood) throw new PrepareError('The build failed (see above).');
}

/**
 * Remembers how a build ended, for the next `ensureBuilt`.
 * @param {boolean} isGood
 */
export function recordBuild(isGood) {
  if (isGood) {
    // The compiler leaves its file alone when nothing changed; the time of the last good build
    // must move all the same, or a touched source would cause a build at every start.
    const now = new Date();
    utimesSync(BUILD_INFO, now, now);
  } else {
    // The compiler writes output in spite of errors: without this it would count as built.
    rmSync(BUILD_INFO, { force: true });
  }
}

function isBuilt() {
  if (!existsSync(BUILD_INFO) || !existsSync(join(ROOT, 'dist', 'cli', 'main.js'))) return false;
  const sources = ['src', 'package.json', 'tsconfig.json', 'tsconfig.build.json'];
  const newest = Math.max(...sources.map(name => newestChange(join(ROOT, name))));
  return newest <= statSync(BUILD_INFO).mtimeMs;
}

/**
 * Folders count too: their time moves when a file is deleted.
 * @param {string} path
 * @returns {number}
 */
function newestChange(path) {
  const stat = statSync(path);
  if (!stat.isDirectory()) return stat.mtimeMs;
  const inside = readdirSync(path).map(name => newestChange(join(path, name)));
  return Math.max(stat.mtimeMs, ...inside);
}

/**
 * Runs a command in the folder of a package and returns its exit code. A signal to this process ends the
 * command too: without that a killed `npm start` would leave an install running.
 * @param {string} command
 * @param {readonly string[]} args
 * @param {{ output: number, folder?: string }} options
 * @returns {Promise<number>}
 */
function run(command, args, { output, folder = ROOT }) {
  return new Promise((resolve, reject) => {
    const child = spawn(command, args, {
      cwd: folder,
      stdio: ['ignore', output, output],
      shell: process.platform === 'win32',
    });
    /** @param {NodeJS.Signals} signal */
    const end = signal => {
      child.kill(signal);
      process.exit(128 + constants.signals[signal]);
    };
    process.on('SIGINT', end).on('SIGTERM', end);
    child.on('error', reject);
    child.on('close', (code, signal) => {
      process.off('SIGINT', end).off('SIGTERM', end);
      resolve(code ?? 128 + (signal === null ? 0 : constants.signals[signal]));
    });
  });
}

/**
 * Calls `onGone` when npm has ended under us. It gives a signal it receives to the shell in which
 * scripts run, and that one dies of it without telling us.
 * @param {() => void} onGone
 */
export function watchParent(onGone) {
  // Started by hand, we may outlive the shell we came from.
  if (process.env.npm_lifecycle_event === undefined) return;
  const parent = process.ppid;
  const timer = setInterval(() => {
    if (process.ppid === parent) return;
    clearInterval(timer);
    onGone();
  }, 250);
  timer.unref();
}

/**
 * Standard output belongs to the command that is being prepared.
 * @param {string} text
 */
export function say(text) {
  process.stderr.write(`${text}\n`);
}
