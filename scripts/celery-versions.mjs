// @ts-check
/**
 * Runs the interop tests with the installed Celery, and again with each folder of sources that is given, and writes the table of
 * docs/internals/celery-versions.md: each case, and how it went with each version. Servers come from the environment, as
 * `node scripts/servers.mjs` prints it.
 *
 *   npm run celery-versions -- /path/to/celery-5.6 …
 *   npm run celery-versions -- --report 5.2.6=old.json …      a report of vitest (`--reporter=json`) that is there already
 */
import { spawnSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { basename, join } from 'node:path';
import { parseArgs } from 'node:util';

const PAGE = join('docs', 'internals', 'celery-versions.md');
/** @typedef {{ assertionResults: { fullName: string; status: string }[]; name: string }} FileReport */
/** @typedef {{ version: string; report: { testResults: FileReport[] } }} Run */

/** @type {Readonly<Record<string, string>>} */
const MARKS = { passed: 'passes', failed: '**fails**', skipped: 'not there', pending: 'not there' };

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: { report: { type: 'string', multiple: true, default: [] } },
});

const given = values.report.map(text => {
  const [version = '', file = ''] = text.split('=');
  return { version, report: JSON.parse(readFileSync(file, 'utf8')) };
});
const runs = given.length > 0 ? given : [null, ...positionals].map(runWith);
writeFileSync(PAGE, pageOf(runs.sort((a, b) => a.version.localeCompare(b.version))));

/**
 * @param {string | null} sources
 * @returns {Run}
 */
function runWith(sources) {
  const folder = mkdtempSync(join(tmpdir(), 'outlast-celery-'));
  const file = join(folder, 'report.json');
  const python = process.env['OUTLAST_TEST_CELERY_PYTHON'] ?? 'python3';
  const path = sources === null ? {} : { OUTLAST_TEST_CELERY_PATH: sources, PYTHONPATH: sources };
  const env = { ...process.env, ...path };
  try {
    const asked = ['-c', 'import celery; print(celery.__version__)'];
    const version = spawnSync(python, asked, { env, encoding: 'utf8' }).stdout.trim();
    const vitest = join('node_modules', 'vitest', 'vitest.mjs');
    const reporters = ['--reporter=default', '--reporter=json', `--outputFile.json=${file}`];
    spawnSync('node', [vitest, 'run', 'test/interop', ...reporters], { env, stdio: 'inherit' });
    return { version, report: JSON.parse(readFileSync(file, 'utf8')) };
  } finally {
    rmSync(folder, { recursive: true });
  }
}

/** @param {readonly Run[]} all */
function pageOf(all) {
  /** @type {Map<string, Map<string, string>>} */
  const cases = new Map();
  for (const { version, report } of all)
    for (const { name, assertionResults } of report.testResults)
      for (const { fullName, status } of assertionResults) {
        const row = `\`${basename(name, '.test.ts')}\` | ${fullName.trim().replaceAll('|', '\\|')}`;
        const marks = cases.get(row) ?? new Map();
        cases.set(row, marks.set(version, MARKS[status] ?? 'not run'));
      }
  const versions = all.map(({ version }) => version);
  const rows = [...cases].sort(([a], [b]) => (a < b ? -1 : 1));
  return [
    '# Celery: cases and versions',
    '',
    'Made by `npm run celery-versions`: every case of `test/interop`, with each version of Celery as producer and as worker. *Not',
    'there* means that this version of Celery does not have what the case needs, such as stamps before 5.3.',
    '',
    `| file | case | ${versions.join(' | ')} |`,
    `| --- | --- | ${versions.map(() => '---').join(' | ')} |`,
    ...rows.map(
      ([row, marks]) =>
        `| ${row} | ${versions.map(version => marks.get(version) ?? 'not run').join(' | ')} |`,
    ),
    '',
  ].join('\n');
}
