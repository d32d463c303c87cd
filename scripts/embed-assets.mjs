// @ts-check
/**
 * Turns the .sql and .lua files of the adapters into modules, so that nothing reads files at run time.
 * `--check` writes nothing and fails when a module is not what its files say.
 */
import { existsSync, readFileSync, readdirSync, writeFileSync } from 'node:fs';
import { join, relative } from 'node:path';
import { fileURLToPath } from 'node:url';
import { luaModule } from './lua-text.mjs';
import { loadShared, sqlWithMarks, whyNotShared } from './shared-marks.mjs';
import { typedRecord } from './typed-record.mjs';
import {
  countStatements,
  cutSql,
  placeholders,
  splitStatements,
  withPlaces,
  withoutComments,
} from './sql-text.mjs';

/** Its migrations have the numbers; a folder of another dialect has those of the same names that concern it. */
const FIRST = 'postgres';

/**
 * Folders under src/adapters that have a folder of statements and one of migrations.
 * @param {string} adapters
 */
function dialectsIn(adapters) {
  if (!existsSync(adapters)) return [];
  return readdirSync(adapters)
    .filter(name => ['sql', 'migrations'].every(part => existsSync(join(adapters, name, part))))
    .sort();
}

const HEADER =
  '// Written by scripts/embed-assets.mjs from the .sql files; edit those and run npm run build.\n';
const MIGRATION_TYPE = `interface Migration {
  readonly version: number;
  readonly name: string;
  readonly breaking: boolean;
  /** False: each statement is run by itself, and can be repeated. */
  readonly inTransaction: boolean;
  readonly statements: readonly string[];
}

`;
const OUTSIDE = /^-- breaking: (?:yes|no)\n-- transaction: no\n/;
/** What a process that was killed in the middle, and its successor, may both have run. */
const REPEATABLE =
  /^(?:create (?:unique )?index concurrently [a-z_0-9]+ on |drop index concurrently if exists [a-z_0-9]+$|alter table [a-z_0-9]+ validate constraint [a-z_0-9]+$)/;

const FILE_NAME = /^[a-z][a-z0-9]*(-[a-z0-9]+)*\.sql$/;
const MIGRATION_NAME = /^\d{4}(-[a-z0-9]+)+\.sql$/;

/** @typedef {{ file: string, reason: string }} Refusal */

/** @typedef {import('./shared-marks.mjs').Shared} Shared */

/**
 * The modules to write, by path, and the reasons not to.
 * @param {string} root
 * @param {Shared} shared
 */
function embedAssets(root, shared) {
  /** @type {Map<string, string>} */
  const modules = new Map();
  /** @type {Refusal[]} */
  const refusals = [];
  for (const dialect of dialectsIn(join(root, 'src', 'adapters'))) {
    const folder = join(root, 'src', 'adapters', dialect);
    const isFirst = dialect === FIRST;
    const shape = isFirst ? SHAPES.numbered : SHAPES.placed;
    modules.set(
      join(folder, 'sql.generated.ts'),
      sqlModule(join(folder, 'sql'), { shape, shared }, refusals),
    );
    const known = isFirst ? null : sqlFiles(join(root, 'src', 'adapters', FIRST, 'migrations'));
    modules.set(
      join(folder, 'migrations.generated.ts'),
      migrationsModule(join(folder, 'migrations'), known, refusals),
    );
  }
  const redis = join(root, 'src', 'adapters', 'redis');
  if (existsSync(redis))
    modules.set(join(redis, 'lua.generated.ts'), luaModule(redis, shared, refusals));
  return { modules, refusals };
}

/**
 * How a statement is written down, and why it cannot be.
 * @typedef {{ type: string, entryOf: (text: string) => string, refuse: (text: string) => string | null }} Shape
 */

/** @type {Partial<Record<import('./sql-text.mjs').PieceKind, RegExp>>} */
const ODD_IN_MYSQL = { code: /[\\?#]/, quoted: /[\\?]/ };

/** @type {{ numbered: Shape, placed: Shape }} */
const SHAPES = {
  numbered: {
    type: 'string',
    entryOf: text => quote(statementOf(cutSql(text))),
    refuse: () => null,
  },
  placed: {
    type: '{ readonly text: string; readonly order: readonly number[] }',
    entryOf: text => {
      const { pieces, order } = withPlaces(cutSql(text));
      return `{\n    text: ${quote(statementOf(pieces))},\n    order: [${order.join(', ')}],\n  }`;
    },
    refuse: text => {
      const odd = cutSql(text).find(
        ({ kind, text: part }) => ODD_IN_MYSQL[kind]?.test(part) ?? false,
      );
      return odd === undefined
        ? null
        : 'it has a \\, ? or # that MySQL or its drivers read otherwise';
    },
  },
};

/**
 * @param {string} folder
 * @param {{ shape: Shape, shared: Shared }} rules
 * @param {Refusal[]} refusals
 */
function sqlModule(folder, { shape, shared }, refusals) {
  /** @type {[name: string, value: string][]} */
  const entries = sqlFiles(folder).map(name => {
    const file = join(folder, name);
    const source = readFileSync(file, 'utf8');
    const text = sqlWithMarks(source, shared.constants);
    const reason = FILE_NAME.test(name)
      ? (whyNotShared(source, shared) ?? whyNotStatement(text) ?? shape.refuse(text))
      : 'the name is not kebab-case';
    if (reason !== null) refusals.push({ file, reason });
    const key = name.replace(/\.sql$/, '').replace(/-(.)/g, (_, letter) => letter.toUpperCase());
    return [key, shape.entryOf(text)];
  });
  return `${HEADER}${typedRecord('SQL', shape.type, entries)}`;
}

/** @param {readonly import('./sql-text.mjs').Piece[]} pieces */
function statementOf(pieces) {
  return withoutComments(pieces).replace(/\s*;$/, '');
}

/**
 * Why a file is not one statement with a header that tells its parameters; null when it is.
 * @param {string} text
 */
function whyNotStatement(text) {
  const header = text.match(/^(--[^\n]*\n)*/)?.[0] ?? '';
  const paramsLines = header.split('\n').filter(line => line.startsWith('-- params:'));
  const [paramsLine] = paramsLines;
  if (paramsLine === undefined) return "the header has no line '-- params: name type, ...'";
  if (paramsLines.length > 1) return 'the header has more than one params line';
  const params = parseParams(paramsLine);
  if (typeof params === 'string') return params;
  const pieces = cutSql(text);
  const count = countStatements(pieces);
  if (count !== 1) return `it has ${count === 0 ? 'no statement' : 'more than one statement'}`;
  return whyNotNumbered(placeholders(pieces), params);
}

/**
 * The names of the parameters, or what is wrong with them.
 * @param {string} line
 * @returns {string[] | string}
 */
function parseParams(line) {
  const list = line.slice('-- params:'.length).trim();
  if (list === 'none') return [];
  // A comma inside parentheses belongs to a type: numeric(10, 2).
  const params = list.split(/,(?![^(]*\))/).map(param => param.trim());
  const odd = params.find(param => !/^[a-z_][a-z0-9_]* \S/.test(param));
  if (odd !== undefined) return `the params line has '${odd}' where a name and a type belong`;
  return params;
}

/**
 * @param {number[]} used
 * @param {string[]} params
 */
function whyNotNumbered(used, params) {
  for (const [index, param] of params.entries()) {
    if (!used.includes(index + 1)) return `$${index + 1} (${param}) is never used`;
  }
  const highest = Math.max(0, ...used);
  if (highest > params.length) return `$${highest} is used, but params names ${params.length}`;
  if (used.includes(0)) return '$0 is not a parameter';
  return null;
}

/**
 * The first dialect numbers its migrations without a gap. Another has those of the same names that concern it.
 * @param {string} folder
 * @param {readonly string[] | null} known names of the first dialect; null: this is it
 * @param {Refusal[]} refusals
 */
function migrationsModule(folder, known, refusals) {
  const entries = sqlFiles(folder).map((name, index) => {
    const file = join(folder, name);
    const text = readFileSync(file, 'utf8');
    const version = known === null ? index + 1 : known.indexOf(name) + 1;
    const reason =
      version === 0
        ? `${FIRST} has no migration of this name`
        : whyNotMigration(name, text, version);
    if (reason !== null) refusals.push({ file, reason });
    const breaking = text.startsWith('-- breaking: yes');
    const statements = splitStatements(cutSql(text)).map(sql => `      ${quote(sql)},\n`);
    const fields = `version: ${version}, name: '${name.replace(/\.sql$/, '')}', breaking: ${breaking}, inTransaction: ${!OUTSIDE.test(text)}`;
    return `  {\n    ${fields},\n    statements: [\n${statements.join('')}    ],\n  },\n`;
  });
  return `${HEADER}${MIGRATION_TYPE}export const MIGRATIONS: readonly [Migration, ...Migration[]] = ${block('[', entries, ']')};\n`;
}

/**
 * @param {string} name
 * @param {string} text
 * @param {number} version
 */
function whyNotMigration(name, text, version) {
  const number = String(version).padStart(4, '0');
  if (!MIGRATION_NAME.test(name)) return 'the name is not like 0001-outbox.sql';
  if (!name.startsWith(number)) return `its number should be ${number}: migrations are dense`;
  if (!/^-- breaking: (yes|no)\n/.test(text)) return "the first line is not '-- breaking: yes|no'";
  if (countStatements(cutSql(text)) === 0) return 'it has no statement';
  return whyNotOutside(splitStatements(cutSql(text)), OUTSIDE.test(text));
}

/**
 * @param {readonly string[]} statements
 * @param {boolean} isOutside
 */
function whyNotOutside(statements, isOutside) {
  const odd = statements.find(sql =>
    isOutside ? !REPEATABLE.test(sql) : /\bindex\s+concurrently\b/i.test(sql),
  );
  if (odd === undefined) return null;
  return isOutside
    ? `outside of a transaction it cannot be repeated: ${odd}`
    : "an index is made concurrently only under a second line '-- transaction: no'";
}

/** @param {string} folder */
function sqlFiles(folder) {
  if (!existsSync(folder)) return [];
  return readdirSync(folder)
    .filter(name => name.endsWith('.sql'))
    .sort();
}

/**
 * @param {string} open
 * @param {string[]} entries
 * @param {string} close
 */
function block(open, entries, close) {
  return entries.length === 0 ? open + close : `${open}\n${entries.join('')}${close}`;
}

/**
 * Template literals keep the lines, so that a diff of the module reads like one of the SQL.
 * @param {string} text
 */
function quote(text) {
  return `\`${text.replace(/[\\`]|\$(?=\{)/g, found => `\\${found}`)}\``;
}

/**
 * Only what differs is written: a new time on an equal file would cause a build at every start.
 * @param {Map<string, string>} modules
 */
function staleModules(modules) {
  return [...modules].filter(
    ([file, text]) => !existsSync(file) || readFileSync(file, 'utf8') !== text,
  );
}

async function main() {
  const root = fileURLToPath(new URL('..', import.meta.url));
  const { modules, refusals } = embedAssets(root, await loadShared(root));
  for (const { file, reason } of refusals) console.error(`${relative(root, file)}: ${reason}`);
  if (refusals.length > 0) return 1;
  const stale = staleModules(modules);
  if (!process.argv.includes('--check')) {
    for (const [file, text] of stale) writeFileSync(file, text);
    return 0;
  }
  for (const [file] of stale) console.error(`${relative(root, file)} is stale: npm run build`);
  return stale.length === 0 ? 0 : 1;
}

process.exitCode = await main();
