// @ts-check
/**
 * Writes the reference of the API from the comments in src, and the modules in which the compiler checks
 * its examples. `--check` writes nothing and fails when a file is not what the sources say, or when an export has no
 * sentence, a function or class no example, or `@throws` names a code that does not exist.
 */
import { existsSync, mkdirSync, readFileSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { exampleModule, writePages } from './api/page.mjs';
import { readEntryPoints } from './api/read-exports.mjs';
import { ROOT } from './prepare.mjs';

const PAGES = 'docs/reference/api';
const EXAMPLES = 'test/types/api-examples';
const STAGES = 'test/types/stages';

const entries = readEntryPoints(ROOT);
const codes = readFileSync(join(ROOT, 'src/errors/codes.ts'), 'utf8');

/** @returns {readonly string[]} */
function shortcomings() {
  return entries.flatMap(entry =>
    entry.exports.flatMap(({ name, kind, file, text, examples, errors }) => {
      const at = `${file}: ${name} of ${entry.name}`;
      const needsExample = kind === 'function' || kind === 'class' || kind === 'constant';
      return [
        ...(text === '' ? [`${at} has no sentence`] : []),
        ...(needsExample && examples.length === 0 ? [`${at} has no @example`] : []),
        ...errors.filter(code => !codes.includes(`${code}:`)).map(code => `${at} throws ${code}?`),
      ];
    }),
  );
}

/** @param {string} name of an entry point */
const slugOf = name => name.replace(/^outlast\/?/, '').replaceAll('/', '-') || 'outlast';

/** @param {string} slug */
function stage(slug) {
  const file = join(ROOT, STAGES, `${slug}.ts`);
  if (!existsSync(file)) return [];
  const names = readFileSync(file, 'utf8').matchAll(/^export (?:declare )?const (\w+)/gm);
  return [{ path: `../stages/${slug}.ts`, names: Array.from(names, ([, name = '']) => name) }];
}

function files() {
  const made = writePages(entries);
  const root = entries.find(({ name }) => name === 'outlast');
  if (!root) throw new Error('package.json does not export the package itself');
  for (const entry of entries) {
    if (entry.exports.every(({ examples }) => examples.length === 0)) continue;
    const slug = slugOf(entry.name);
    const text = exampleModule(entry, root, [...stage(slug), ...stage('common')]);
    made.set(`${EXAMPLES}/${slug}.generated.ts`, text);
  }
  return made;
}

/** @param {ReadonlyMap<string, string>} made */
const leftOver = made =>
  [PAGES, EXAMPLES]
    .filter(folder => existsSync(join(ROOT, folder)))
    .flatMap(folder => readdirSync(join(ROOT, folder)).map(name => `${folder}/${name}`))
    .filter(path => !made.has(path));

const missing = shortcomings();
const made = files();
const isCheck = process.argv.includes('--check');
const read = (/** @type {string} */ path) =>
  existsSync(join(ROOT, path)) ? readFileSync(join(ROOT, path), 'utf8') : '';
const stale = [
  ...[...made].filter(([path, text]) => read(path) !== text).map(([path]) => path),
  ...leftOver(made),
];
if (!isCheck) {
  for (const [path, text] of made) {
    mkdirSync(dirname(join(ROOT, path)), { recursive: true });
    writeFileSync(join(ROOT, path), text);
  }
  for (const path of leftOver(made)) rmSync(join(ROOT, path));
}
for (const line of missing) console.error(line);
if (isCheck)
  for (const path of stale) console.error(`${path} is not up to date: run npm run build`);
// A build goes on without a sentence; what is checked in does not.
process.exitCode = isCheck && missing.length + stale.length > 0 ? 1 : 0;
