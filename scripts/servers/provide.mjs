// @ts-check
import { canInstall, installPackages } from './install-packages.mjs';
import { PrivateServer } from './private-server.mjs';
import { findFreePorts } from './readiness.mjs';
import { REQUIREMENTS } from './table.mjs';

/** @typedef {import('./table.mjs').Requirement} Requirement */
/** @typedef {import('./test-run.mjs').TestRun} TestRun */

/** Something is not there and cannot be installed by us. The message says what to do. */
export class MissingError extends Error {}

/**
 * Makes sure that what the tests use is there, starts private servers, and returns the variables
 * that point to them. `names` are those to start; without it those that tests use today.
 * @param {TestRun} run
 * @param {readonly string[]} [names]
 * @param {{ isDurable?: boolean }} [settings] `isDurable`: see `PrivateServer`
 * @returns {Promise<Record<string, string>>}
 */
export async function provide(run, names, { isDurable = false } = {}) {
  const absent = REQUIREMENTS.filter(({ env }) => process.env[env] === undefined);
  const isWanted = (/** @type {Requirement} */ { name, isUsed }) => names?.includes(name) ?? isUsed;
  await installMissing(run, absent, isWanted);
  const pairs = await Promise.all(
    absent.filter(isWanted).map(wanted => provideOne(run, wanted, isDurable)),
  );
  return Object.fromEntries(pairs);
}

/**
 * @param {TestRun} run
 * @param {readonly Requirement[]} absent
 * @param {(requirement: Requirement) => boolean} isWanted
 */
async function installMissing(run, absent, isWanted) {
  const isMissing = (/** @type {Requirement} */ one) => one.find() === null;
  const packagesOf = (/** @type {Requirement[]} */ list) =>
    list.flatMap(({ packages }) => packages);
  if (canInstall()) {
    // Two calls, so that a package that is not used yet cannot keep the others from being installed.
    const now = packagesOf(absent.filter(isMissing).filter(isWanted));
    if (now.length > 0) await installPackages(run, now);
    const later = packagesOf(absent.filter(isMissing).filter(one => !isWanted(one)));
    if (later.length > 0 && !(await installPackages(run, later))) {
      console.log(`Not installed, but no test uses it yet: ${later.join(', ')}`);
    }
  }
  const missing = absent.filter(isWanted).filter(isMissing);
  if (missing.length > 0) throw new MissingError(missingText(missing));
}

/** @param {readonly Requirement[]} missing */
function missingText(missing) {
  const packages = missing.flatMap(one => one.packages).join(' ');
  const examples = missing.map(
    ({ env, server }) => `  ${env}=${server === null ? '<path>' : '<url>'}`,
  );
  return [
    `The tests need ${missing.map(({ name }) => name).join(', ')}, which this machine does not have.`,
    'Only root on a machine with apt can let npm test install it. Either',
    `  apt-get install --no-install-recommends ${packages}`,
    'or point to what runs elsewhere:',
    ...examples,
    'or run the servers with docker compose up (compose.yaml lists the variables for them).',
  ].join('\n');
}

/**
 * @param {TestRun} run
 * @param {Requirement} requirement
 * @param {boolean} isDurable
 * @returns {Promise<[string, string]>}
 */
async function provideOne(run, { name, env, find, server: recipe }, isDurable) {
  const binary = find();
  if (binary === null) throw new MissingError(`${name} is gone`);
  if (recipe === null) return [env, binary];
  const ports = await findFreePorts(recipe.ports);
  const server = new PrivateServer(run, { name, binary, ports, user: recipe.user, isDurable });
  return [env, await recipe.start(server)];
}
