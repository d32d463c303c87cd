// @ts-check
/**
 * Completes the lockfiles after `npm install`: names the native packages of all platforms and
 * removes download addresses. `--check` only says what is wrong.
 *
 * npm leaves a native package out of the lockfile when the registry it asked does not have it, as
 * mirrors often do not for platforms nobody there uses; `npm ci` then refuses the file everywhere.
 * Version and platform follow from the package that wants it. An address would send every install
 * to one registry.
 */
import { readFileSync, writeFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';

const FILES = ['package-lock.json', 'bench/package-lock.json'];

const SYSTEMS = ['android', 'darwin', 'freebsd', 'linux', 'openharmony', 'win32'];
// arm is last: it is part of arm64.
const PROCESSORS = [
  'arm64',
  'x64',
  'ia32',
  'loong64',
  'ppc64',
  'riscv64',
  's390x',
  'wasm32',
  'arm',
];

/**
 * @typedef {object} LockedPackage
 * @property {string} [version]
 * @property {string} [resolved]
 * @property {boolean} [dev]
 * @property {Record<string, string>} [optionalDependencies]
 */

/**
 * The optional packages that have no entry, with the entry they should have.
 * @param {Record<string, LockedPackage>} packages
 */
function missingEntries(packages) {
  return Object.values(packages).flatMap(({ dev, optionalDependencies = {} }) =>
    Object.entries(optionalDependencies)
      .map(([name, version]) => ({ path: `node_modules/${name}`, name, version, dev }))
      .filter(({ path }) => !(path in packages))
      .map(({ path, name, version }) => ({ path, entry: platformEntry(name, version, dev) })),
  );
}

/**
 * @param {string} name
 * @param {string} version
 * @param {boolean | undefined} dev
 */
function platformEntry(name, version, dev) {
  const processor = PROCESSORS.find(one => name.includes(one));
  const system = SYSTEMS.find(one => name.includes(one));
  const library = name.includes('musl') ? 'musl' : name.includes('gnu') ? 'glibc' : undefined;
  // The order in which npm writes them.
  return {
    version,
    ...(processor === undefined ? {} : { cpu: [processor] }),
    ...(dev === true ? { dev } : {}),
    ...(system !== 'linux' || library === undefined ? {} : { libc: [library] }),
    optional: true,
    ...(system === undefined ? {} : { os: [system] }),
  };
}

/**
 * True when the file is, or was made, complete.
 * @param {string} name
 * @param {boolean} isCheck
 */
function complete(name, isCheck) {
  const file = fileURLToPath(new URL(`../${name}`, import.meta.url));
  const lock = JSON.parse(readFileSync(file, 'utf8'));
  /** @type {Record<string, LockedPackage>} */
  const packages = lock.packages;
  const missing = missingEntries(packages);
  const addressed = Object.entries(packages).filter(([, { resolved }]) => resolved !== undefined);
  if (missing.length + addressed.length === 0) return true;
  if (isCheck) {
    console.error(
      `${name} has ${addressed.length} addresses and lacks ${missing.length} packages ` +
        'of other platforms: run node scripts/complete-lockfile.mjs',
    );
    return false;
  }
  for (const { path, entry } of missing) packages[path] = entry;
  for (const [, entry] of addressed) delete entry.resolved;
  lock.packages = Object.fromEntries(
    Object.entries(packages).sort(([a], [b]) => a.localeCompare(b, 'en')),
  );
  writeFileSync(file, `${JSON.stringify(lock, null, 2)}\n`);
  return true;
}

const isCheck = process.argv.includes('--check');
process.exitCode = FILES.map(name => complete(name, isCheck)).every(Boolean) ? 0 : 1;
