// @ts-check
/** The reference pages, and the file in which the compiler checks their examples. */

/**
 * @typedef {import('./read-exports.mjs').EntryPoint} EntryPoint
 * @typedef {import('./read-exports.mjs').Export} Export
 */

/** What adapters, frameworks and matchers have in common is on one page each. */
const PAGES = /** @type {const} */ ({
  outlast: ['outlast', 'The application: what sends tasks, runs them and reads how they ended.'],
  task: [
    'outlast/task',
    'Contracts: data that producers and workers share. Loads nothing of Node.',
  ],
  adapters: [
    /^outlast\/(pg|pglite|mysql2|mariadb|postgres-js|kysely|drizzle|prisma|typeorm|knex|mikro-orm|sequelize)$/,
    'Your own transactions: one function for each library. [What each of them refuses](../transactions.md).',
  ],
  admin: ['outlast/admin', 'What operators do, for programs.'],
  testing: [/^outlast\/testing/, 'Tests without a server. [The guide](../../guides/testing.md).'],
  frameworks: [
    /^outlast\/(?!task|admin|metrics|dev|testing)(?!pg|mysql2|mariadb|postgres-js|kysely|drizzle|prisma|typeorm|knex|mikro-orm|sequelize)./,
    'Web frameworks. [The guide](../../guides/frameworks.md).',
  ],
  metrics: ['outlast/metrics', 'Figures of this process. [All of them](../metrics.md).'],
  dev: ['outlast/dev', '`outlast dev` from code.'],
});

/**
 * @param {readonly EntryPoint[]} entries
 * @returns {Map<string, string>} text by path
 */
export function writePages(entries) {
  const pages = new Map();
  /** @type {Map<string, string>} page by entry point */
  const homes = new Map();
  for (const [page, [which]] of Object.entries(PAGES))
    for (const { name } of entries)
      if (typeof which === 'string' ? name === which : which.test(name)) homes.set(name, page);
  const homeless = entries.filter(({ name }) => !homes.has(name));
  if (homeless.length > 0)
    throw new Error(`no page of scripts/api/page.mjs has ${homeless[0]?.name}`);
  for (const [page, [, sentence]] of Object.entries(PAGES)) {
    const own = entries.filter(({ name }) => homes.get(name) === page);
    pages.set(`docs/reference/api/${page}.md`, pageOf(own, sentence, entries));
  }
  pages.set('docs/reference/api/README.md', index(entries, homes));
  return pages;
}

const NOTE =
  '<!-- Written by scripts/write-api.mjs from the comments in src; edit those and run npm run build. -->';

/**
 * @param {readonly EntryPoint[]} entries of this page
 * @param {string} sentence
 * @param {readonly EntryPoint[]} all
 */
function pageOf(entries, sentence, all) {
  const title = entries.map(({ name }) => `\`${name}\``).join(', ');
  const parts = entries.map(entry => {
    const own = entry.exports.filter(one => !isElsewhere(entry, one, all));
    const others = entry.exports.filter(one => isElsewhere(entry, one, all));
    const note =
      others.length === 0
        ? ''
        : `Also everything of [\`outlast/task\`](task.md): ${others.map(({ name }) => `\`${name}\``).join(', ')}.\n\n`;
    const nothing =
      entry.exports.length === 0 ? 'Imported for what it does: it exports nothing.\n\n' : '';
    const heading = entries.length === 1 ? '' : `## ${entry.name}\n\n`;
    return `${heading}${note}${nothing}${own.map(one => section(entry, one)).join('\n')}`;
  });
  return (
    `${NOTE}\n\n# ${title}\n\n${sentence}\n\n${parts.join('\n')}`
      .replace(/\n{3,}/g, '\n\n')
      .trimEnd() + '\n'
  );
}

/**
 * `outlast` exports all of `outlast/task`, which has a page.
 * @param {EntryPoint} entry
 * @param {Export} one
 * @param {readonly EntryPoint[]} all
 */
function isElsewhere(entry, one, all) {
  if (entry.name !== 'outlast') return false;
  const shared = all.find(({ name }) => name === 'outlast/task');
  return shared?.exports.some(({ name }) => name === one.name) ?? false;
}

/**
 * @param {EntryPoint} entry
 * @param {Export} one
 */
function section(entry, { name, kind, text, signature, members, examples, errors }) {
  const rows = members.map(
    ({ name: member, type, preset, text: about }) =>
      `| \`${member}\` | ${quoted(type)} | ${preset === '' ? '' : cell(preset)} | ${cell(about)} |`,
  );
  const hasDefaults = members.some(({ preset }) => preset !== '');
  const table = hasDefaults
    ? ['| member | type | default | |', '| --- | --- | --- | --- |', ...rows]
    : [
        '| member | type | |',
        '| --- | --- | --- |',
        ...members.map(
          ({ name: member, type, text: about }) =>
            `| \`${member}\` | ${quoted(type)} | ${cell(about)} |`,
        ),
      ];
  const thrown = errors.map(error => `[\`${error}\`](../errors.md)`).join(', ');
  return [
    `### ${name}`,
    text,
    ['```ts', signature, '```'].join('\n'),
    members.length === 0 ? '' : table.join('\n'),
    errors.length === 0 ? '' : `Errors: ${thrown}.`,
    ...examples.map(example =>
      ['```ts', `// ${kind === 'class' ? 'caught from ' : ''}${entry.name}`, example, '```'].join(
        '\n',
      ),
    ),
  ]
    .filter(part => part !== '')
    .join('\n\n')
    .concat('\n');
}

/** @param {string} text */
const cell = text => text.replace(/\s+/g, ' ').replaceAll('|', '\\|');

/** @param {string} type */
const quoted = type => (type === '' ? '' : `\`${cell(type)}\``);

/**
 * @param {readonly EntryPoint[]} entries
 * @param {ReadonlyMap<string, string>} homes
 */
function index(entries, homes) {
  const rows = entries.map(({ name, exports }) => {
    const home = homes.get(name);
    const values = exports.filter(({ kind }) => kind !== 'interface' && kind !== 'type');
    const types = exports.length - values.length;
    const shown = values.map(one => `\`${one.name}\``).join(', ') || '–';
    return `| [\`${name}\`](${home}.md) | ${shown} | ${types} |`;
  });
  return [
    NOTE,
    '',
    '# API',
    '',
    'Every export of every entry point: what it is, its options with their defaults, the errors it names, and an example that the',
    'compiler checks. `npm run check` fails when a page is not what the sources say.',
    '',
    '| import | values | types |',
    '| --- | --- | --- |',
    ...rows,
    '',
    'Options have pages of their own: [configuration](../configuration.md), [tasks and sends](../task-options.md),',
    '[handlers](../handlers.md). [Errors](../errors.md) and [events](../events.md) too.',
    '',
  ].join('\n');
}

/**
 * The examples of an entry point as a module. Names they do not declare come from the entry point, from `outlast`, or
 * from a stage: declarations in test/types/stages.
 * @param {EntryPoint} entry
 * @param {EntryPoint} root the entry point `outlast`
 * @param {readonly { path: string, names: readonly string[] }[]} stages first those of this entry point
 */
export function exampleModule(entry, root, stages) {
  const examples = entry.exports.flatMap(({ examples: own }) => own);
  const left = new Set(examples.flatMap(freeWords));
  const sources = [
    ...[entry, root].map(({ name, exports }) => ({
      path: name,
      names: exports.map(one => one.name),
    })),
    ...stages,
  ];
  const imports = sources.flatMap(({ path, names }) => {
    const wanted = names.filter(name => left.delete(name));
    return wanted.length === 0
      ? []
      : [`import { ${wanted.toSorted().join(', ')} } from '${path}';`];
  });
  const functions = examples.map(
    (example, at) =>
      `export async function example${at + 1}(): Promise<unknown> {\n${indent(bodyOf(example))}\n}\n`,
  );
  return `// Written by scripts/write-api.mjs from the comments in src.\n${imports.join('\n')}\n\n${functions.join('\n')}`;
}

/** @param {string} example */
function freeWords(example) {
  const code = example.replace(/'[^']*'/g, "''").replaceAll('...', '');
  const declared = code.matchAll(/\b(?:const|using) (?:\{ ([^}]+) \}|(\w+)) =/g);
  const own = Array.from(declared, ([, many, one = '']) => (many ?? one).split(', ')).flat();
  return (code.match(/(?<![./\w])[A-Za-z_]\w*(?![\w]|\??:)/g) ?? []).filter(
    word => !own.includes(word),
  );
}

/** @param {string} example */
function bodyOf(example) {
  const body = example.replace(/^export default /, 'return ').replace(/^export /gm, '');
  const names = Array.from(
    body.matchAll(/^(?:const|await using) (?:\{ ([^}]+) \}|(\w+)) =/gm),
    ([, many, one]) => many ?? one,
  );
  if (/^return\b/m.test(body)) return body;
  if (/^if\b/m.test(body)) return `${body}\nreturn undefined;`;
  return `${body}\nreturn [${names.join(', ')}];`;
}

/** @param {string} text */
const indent = text =>
  text
    .split('\n')
    .map(line => (line === '' ? line : `  ${line}`))
    .join('\n');
