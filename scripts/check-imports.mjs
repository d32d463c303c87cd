// @ts-check
/**
 * Who may import whom, checked on every file of src, types included. It reads the import lines
 * itself because the tools that do this need the compiler's API, which TypeScript 7 does not have.
 */
import { existsSync, readFileSync, readdirSync } from 'node:fs';
import { builtinModules } from 'node:module';
import { dirname, join, relative, sep } from 'node:path';
import { fileURLToPath } from 'node:url';
import { maskSource, readImports } from './read-imports.mjs';

const STAGES = [
  'outbox',
  'relay',
  'broker',
  'worker',
  'ledger',
  'idempotency',
  'admission',
  'result',
  'recovery',
  'fleet',
  'workflow',
  'schedule',
];
const FOUNDATION = ['errors', 'options', 'task', 'wire', 'runtime', 'telemetry', 'config'];
/** Everything that is neither an adapter nor a way in from outside. */
const INSIDE = [...FOUNDATION, ...STAGES];
/** The interfaces that adapters implement and stages call. */
const PORTS = [
  'outbox/outbox-store.ts',
  'outbox/outbox-reads.ts',
  'outbox/receipt-store.ts',
  'outbox/outbox-checks.ts',
  'outbox/outbox-writer.ts',
  'outbox/scan-floor.ts',
  'outbox/transaction-adapter.ts',
  'broker/broker.ts',
  'broker/demand.ts',
  'broker/destination-guard.ts',
  'broker/fleet.ts',
  'broker/publish-within.ts',
  'worker/effects/door.ts',
  'idempotency/idempotency-store.ts',
  'idempotency/holder.ts',
  'idempotency/free-orphans.ts',
  'ledger/ledger.ts',
  'ledger/batch-limits.ts',
  'ledger/begin-in-slices.ts',
  'ledger/checkpoint-store.ts',
  'ledger/parted-checkpoint-store.ts',
  'ledger/control-store.ts',
  'ledger/death.ts',
  'ledger/generation-store.ts',
  'ledger/ledger-reads.ts',
  'ledger/tallies.ts',
  'ledger/task-line.ts',
  'ledger/open-chord.ts',
  'ledger/chord-check.ts',
  'ledger/objectives-check.ts',
  'ledger/recovery-check.ts',
  'ledger/queue-check.ts',
  'ledger/refused-check.ts',
  'ledger/evacuation.ts',
  'ledger/tier-store.ts',
  'ledger/read-entry.ts',
  'ledger/read-error.ts',
  'ledger/suspect.ts',
  'admission/admission-store.ts',
  'admission/gcra.ts',
  'admission/limited.ts',
  'recovery/fence-rows.ts',
  'schedule/schedule-store.ts',
  'result/result-store.ts',
  'ledger/dead-letter.ts',
];
/** What configuration becomes: open stores, the services and processes on them, and what an application holds. */
const COMPOSED = ['context', 'process', 'app'];
const SURFACES = ['cli', 'admin', 'dashboard', 'frameworks', 'metrics', 'traces', ...COMPOSED];

/**
 * For each folder of src the folders and files it may import besides itself. A name that ends in
 * `.ts` is one file, any other a folder with all that is below.
 * @type {Record<string, readonly string[]>}
 */
const MAY_IMPORT = {
  errors: [],
  // The tables of options, and nothing that reads them.
  options: ['errors'],
  task: ['errors', 'options'],
  // What travels on a broker: pure functions between envelopes and messages.
  wire: ['errors', 'options', 'task'],
  runtime: FOUNDATION,
  telemetry: FOUNDATION,
  // What URLs there are, and what each can be; nothing of a database is loaded by that.
  config: [...FOUNDATION, 'adapters/dialects.ts', 'adapters/sql/dialect.ts'],
  ...Object.fromEntries(
    STAGES.map(stage => [stage, [...FOUNDATION, 'ledger', 'admission', ...PORTS]]),
  ),
  // Schedules compose tasks as senders do.
  schedule: [...FOUNDATION, 'ledger', 'admission', 'outbox', ...PORTS],
  // A worker as others see and steer it.
  fleet: [...FOUNDATION, 'ledger', 'worker', ...PORTS],
  // What every dialect of SQL is to the rest: types, and transactions on connections of our own.
  adapters: [...FOUNDATION, ...PORTS, 'adapters/sql'],
  // One process holds the embedded database; the others reach it through the remote adapter.
  'adapters/pglite': ['adapters/postgres', 'adapters/remote'],
  'adapters/remote': ['adapters/postgres'],
  // The user's transaction runs the statements of its dialect.
  'adapters/transactions': ['adapters/postgres', 'adapters/mysql'],
  // A listener of events, and nothing that the core knows of.
  metrics: [...FOUNDATION, 'outbox/outbox-reads.ts', 'relay/relay.ts', 'app/outlast.ts'],
  // As metrics: the stages see an interface of `telemetry` only.
  traces: FOUNDATION,
  context: [...INSIDE, 'adapters', 'admin', 'traces'],
  process: [...INSIDE, 'context', 'metrics', 'traces'],
  app: [...INSIDE, 'adapters', 'context', 'process', 'metrics'],
  admin: [...INSIDE, ...SURFACES],
  dashboard: [...INSIDE, ...SURFACES],
  frameworks: [...INSIDE, ...SURFACES],
  cli: [...INSIDE, ...SURFACES, 'dev', 'init', 'index.ts'],
  // Writes files of the user, and knows nothing of tasks.
  init: [...FOUNDATION, 'config'],
  dev: [...INSIDE, ...SURFACES, 'adapters', 'index.ts'],
  testing: [...INSIDE, ...SURFACES, 'adapters', 'index.ts'],
  // Files directly in src: the public names.
  '.': [...INSIDE, ...SURFACES, 'testing', 'dev'],
};

/** Packages that speak to a server: only an adapter may name one, so that a backend is one folder. */
const DRIVERS = ['pg', '@electric-sql/pglite', 'amqplib', 'ioredis', 'mysql2', 'mariadb'];

/** Folders the simulator runs under a virtual clock. */
const CORE = [
  'task',
  'wire',
  'outbox',
  'relay',
  'broker',
  'worker',
  'ledger',
  'admission',
  'result',
  'recovery',
  'workflow',
  'schedule',
];

/**
 * @typedef {{ file: string, line: number, rule: string, text: string }} Violation
 * @typedef {import('./read-imports.mjs').ImportLine & { target: string | null }} Edge
 * @typedef {Map<string, readonly Edge[]>} Graph files of src, as paths from src with slashes
 */

/**
 * Every violation in the `src` folder of `root`.
 * @param {string} root
 * @returns {Violation[]}
 */
export function checkImports(root) {
  const src = join(root, 'src');
  const files = listSources(src);
  /** @type {Graph} */
  const graph = new Map(files.map(file => [file, readEdges(src, file)]));
  return [
    ...[...graph].flatMap(([file, edges]) => edges.flatMap(edge => checkEdge(file, edge))),
    ...checkPackages(root, graph),
    ...checkPureTask(graph),
    ...checkCycles(graph),
    ...files.flatMap(file => checkClock(src, file)),
  ];
}

/** @param {string} src */
function listSources(src) {
  return readdirSync(src, { recursive: true, encoding: 'utf8' })
    .filter(file => file.endsWith('.ts') && !file.endsWith('.test.ts'))
    .map(file => file.split(sep).join('/'))
    .sort();
}

/**
 * @param {string} src
 * @param {string} file
 * @returns {Edge[]}
 */
function readEdges(src, file) {
  const text = readFileSync(join(src, file), 'utf8');
  return readImports(text).map(line => {
    if (!line.specifier.startsWith('.')) return { ...line, target: null };
    const path = join(src, dirname(file), line.specifier.replace(/\.js$/, '.ts'));
    return { ...line, target: relative(src, path).split(sep).join('/') };
  });
}

/**
 * The direction of one import between two files of src.
 * @param {string} file
 * @param {Edge} edge
 * @returns {Violation[]}
 */
function checkEdge(file, { line, target, specifier }) {
  const driver = DRIVERS.find(name => specifier === name || specifier.startsWith(`${name}/`));
  if (driver !== undefined && !file.startsWith('adapters/')) {
    return [{ file, line, rule: 'driver', text: `only src/adapters may import ${driver}` }];
  }
  if (target === null) return [];
  if (target.endsWith('.test.ts') || target.startsWith('..')) {
    return [{ file, line, rule: 'outside', text: `${specifier} is not part of the package` }];
  }
  const home = homeOf(file);
  const [top = '.'] = home.split('/');
  if (!(top in MAY_IMPORT)) {
    return [
      {
        file,
        line,
        rule: 'direction',
        text: `folder ${top} has no rule in scripts/check-imports.mjs`,
      },
    ];
  }
  const allowed = [home, ...(MAY_IMPORT[top] ?? []), ...(MAY_IMPORT[home] ?? [])];
  if (homeOf(target) === home || allowed.some(name => isWithin(target, name))) return [];
  return [{ file, line, rule: 'direction', text: `${home} may not import ${target}` }];
}

/**
 * The folder whose rules hold for a file. Each adapter is a home of its own.
 * @param {string} file
 */
function homeOf(file) {
  const parts = file.split('/');
  if (parts.length === 1) return '.';
  return parts[0] === 'adapters' && parts.length > 2
    ? parts.slice(0, 2).join('/')
    : (parts[0] ?? '.');
}

/**
 * @param {string} target
 * @param {string} name
 */
function isWithin(target, name) {
  return name.endsWith('.ts') ? target === name : target.startsWith(`${name}/`);
}

/**
 * What src imports must be there when a user installs the package; test libraries are not.
 * @param {string} root
 * @param {Graph} graph
 * @returns {Violation[]}
 */
function checkPackages(root, graph) {
  const manifest = join(root, 'package.json');
  if (!existsSync(manifest)) return [];
  const { dependencies = {}, peerDependencies = {} } = JSON.parse(readFileSync(manifest, 'utf8'));
  return [...graph].flatMap(([file, edges]) =>
    edges
      .filter(({ target, specifier }) => target === null && !isBuiltin(specifier))
      .map(({ line, specifier }) => ({ line, name: packageOf(specifier) }))
      .filter(({ name }) => !(name in dependencies || name in peerDependencies))
      .map(({ line, name }) => ({
        file,
        line,
        rule: 'package',
        text: `${name} is neither a dependency nor a peer dependency`,
      })),
  );
}

/** @param {string} specifier */
function packageOf(specifier) {
  return specifier
    .split('/')
    .slice(0, specifier.startsWith('@') ? 2 : 1)
    .join('/');
}

/** @param {string} specifier */
function isBuiltin(specifier) {
  return specifier.startsWith('node:') || builtinModules.includes(specifier);
}

/**
 * Contracts are shared with browsers and edge runtimes: nothing they reach may need Node.
 * @param {Graph} graph
 * @returns {Violation[]}
 */
function checkPureTask(graph) {
  const reached = new Set(['task/index.ts']);
  for (const file of reached) {
    for (const { target } of graph.get(file) ?? []) if (target !== null) reached.add(target);
  }
  return [...reached].flatMap(file =>
    (graph.get(file) ?? [])
      .filter(({ specifier }) => isBuiltin(specifier))
      .map(({ line, specifier }) => ({
        file,
        line,
        rule: 'pure-task',
        text: `src/task/index.ts reaches this file, so it may not import ${specifier}`,
      })),
  );
}

/**
 * One violation for each import that closes a cycle.
 * @param {Graph} graph
 * @returns {Violation[]}
 */
function checkCycles(graph) {
  /** @type {Violation[]} */
  const violations = [];
  /** @type {Set<string>} */
  const finished = new Set();
  /** @param {readonly string[]} path */
  const visit = path => {
    const file = path.at(-1) ?? '';
    for (const { target, line } of graph.get(file) ?? []) {
      if (target === null || finished.has(target)) continue;
      const start = path.indexOf(target);
      if (start === -1) visit([...path, target]);
      else {
        const cycle = [...path.slice(start), target].join(' -> ');
        violations.push({ file, line, rule: 'cycle', text: cycle });
      }
    }
    finished.add(file);
  };
  for (const file of graph.keys()) if (!finished.has(file)) visit([file]);
  return violations;
}

/**
 * The one ambient clock that the linter cannot forbid by name: `new Date()` without arguments.
 * @param {string} src
 * @param {string} file
 * @returns {Violation[]}
 */
function checkClock(src, file) {
  if (!CORE.includes(homeOf(file))) return [];
  const text = maskSource(readFileSync(join(src, file), 'utf8'), { strings: true });
  return [...text.matchAll(/\bnew\s+Date\b(?!\s*\(\s*[^\s)])/g)].map(match => ({
    file,
    line: text.slice(0, match.index).split('\n').length,
    rule: 'clock',
    text: 'the core takes time from runtime/clock.ts, not from new Date()',
  }));
}

function main() {
  const violations = checkImports(fileURLToPath(new URL('..', import.meta.url)));
  for (const { file, line, rule, text } of violations) {
    console.error(`src/${file}:${line}: ${rule}: ${text}`);
  }
  return violations.length === 0 ? 0 : 1;
}

if (process.argv[1] === fileURLToPath(import.meta.url)) process.exitCode = main();
