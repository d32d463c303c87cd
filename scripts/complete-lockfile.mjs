// @ts-check
/**
 * Completes the lockfiles after `npm install`: names the native packages of all platforms, asks for
 * hashes that are missing, and removes download addresses. `--check` only says what is wrong;
 * `--check --every-hash` also says which hashes are missing.
 *
 * npm leaves a native package out of the lockfile when the registry it asked does not have it, as
 * mirrors often do not for platforms that are not in use there; `npm ci` then refuses the file everywhere.
 * Version and platform follow from the package that wants it. The hash of such a package is there
 * as soon as this script has run with a registry that has it. An address would send every install
 * to one registry.
 */
import { execFileSync } from 'node:child_process';
import { readFileSync, writeFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';

const FILES = [
  'package-lock.json',
  'bench/package-lock.json',
  'scripts/package-tools/package-lock.json',
];

const ANSWER_MS = 30_000;

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
 * @property {string} [integrity]
 * @property {boolean} [link]
 * @property {readonly string[]} [os]
 * @property {readonly string[]} [cpu]
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
 * Entries without a hash. Of native packages of other platforms it may be missing, unless all are asked for: a
 * registry that lacks them cannot name it, and no installation takes them from there.
 * @param {Record<string, LockedPackage>} packages
 * @param {boolean} isEvery
 */
function withoutHash(packages, isEvery) {
  const isNative = (/** @type {LockedPackage} */ { os, cpu }) => (os ?? cpu) !== undefined;
  return Object.entries(packages).filter(
    ([path, entry]) =>
      path !== '' && !entry.integrity && !entry.link && (isEvery || !isNative(entry)),
  );
}

/**
 * The hash that the registry names; undefined if it does not have that package.
 * @param {string} registry
 * @param {string} path
 * @param {LockedPackage} entry
 * @returns {Promise<string | undefined>}
 */
async function askForHash(registry, path, { version }) {
  const name = path.slice(path.lastIndexOf('node_modules/') + 'node_modules/'.length);
  const signal = AbortSignal.timeout(ANSWER_MS);
  const answer = await fetch(new URL(`${name}/${version}`, registry), { signal }).catch(() => null);
  if (!answer?.ok) return undefined;
  /** @type {{ dist?: { integrity?: unknown } }} */
  const { dist } = JSON.parse(await answer.text());
  const hash = dist?.integrity;
  return typeof hash === 'string' && hash.startsWith('sha512-') ? hash : undefined;
}

/**
 * In the order in which npm writes them.
 * @param {LockedPackage} entry
 * @param {string} integrity
 */
function withHash({ version, ...entry }, integrity) {
  return { ...(version === undefined ? {} : { version }), integrity, ...entry };
}

/**
 * True when the file is, or was made, complete.
 * @param {string} name
 * @param {boolean} isCheck
 */
async function complete(name, isCheck) {
  const file = fileURLToPath(new URL(`../${name}`, import.meta.url));
  const lock = JSON.parse(readFileSync(file, 'utf8'));
  /** @type {Record<string, LockedPackage>} */
  const packages = lock.packages;
  const missing = missingEntries(packages);
  const addressed = Object.entries(packages).filter(([, { resolved }]) => resolved !== undefined);
  if (isCheck) {
    const bare = withoutHash(packages, process.argv.includes('--every-hash'));
    if (missing.length + addressed.length + bare.length === 0) return true;
    console.error(
      `${name} has ${addressed.length} addresses, lacks ${missing.length} packages of other ` +
        `platforms and ${bare.length} hashes: run node scripts/complete-lockfile.mjs`,
    );
    for (const [path] of bare) console.error(`  no hash: ${path}`);
    return false;
  }
  for (const { path, entry } of missing) packages[path] = entry;
  const registry = execFileSync('npm', ['config', 'get', 'registry'], { encoding: 'utf8' }).trim();
  await Promise.all(
    withoutHash(packages, true).map(async ([path, entry]) => {
      const hash = await askForHash(registry, path, entry);
      if (hash !== undefined) packages[path] = withHash(entry, hash);
    }),
  );
  for (const [, entry] of addressed) delete entry.resolved;
  lock.packages = Object.fromEntries(
    Object.entries(packages).sort(([a], [b]) => a.localeCompare(b, 'en')),
  );
  writeFileSync(file, `${JSON.stringify(lock, null, 2)}\n`);
  return true;
}

const isCheck = process.argv.includes('--check');
const verdicts = await Promise.all(FILES.map(name => complete(name, isCheck)));
process.exitCode = verdicts.every(Boolean) ? 0 : 1;
