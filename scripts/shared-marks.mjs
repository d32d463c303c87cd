// @ts-check
/**
 * What TypeScript, SQL and Lua share: marks, positions, states, steps and codes. They are defined in TypeScript and put into
 * the .sql and .lua files here.
 */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { createJiti } from 'jiti';

/** @typedef {Readonly<Record<string, string | number>>} Constants names in capitals, with their values */
/**
 * @typedef {object} Shared
 * @property {Constants} constants
 * @property {Readonly<Record<string, string>>} includes what `-- include: name` takes in beside files
 * @property {ReadonlySet<string>} codes every error code
 */

/** @param {string} name */
const capitals = name => name.replace(/[A-Z]/g, letter => `_${letter}`).toUpperCase();

/**
 * @param {string} prefix
 * @param {Constants} values
 */
const named = (prefix, values) =>
  Object.fromEntries(
    Object.entries(values).map(([name, value]) => [`${prefix}_${capitals(name)}`, value]),
  );

/**
 * One line of Lua for each group of names.
 * @param {readonly (readonly string[])[]} groups
 * @param {Readonly<Record<string, number>>} values
 */
const locals = (groups, values) =>
  groups
    .map(
      group =>
        `local ${group.map(capitals).join(', ')} = ${group.map(name => values[name]).join(', ')}\n`,
    )
    .join('');

/**
 * Reads the definitions.
 * @param {string} root
 * @returns {Promise<Shared>}
 */
export async function loadShared(root) {
  const jiti = createJiti(import.meta.url, { fsCache: false });
  /** @type {typeof import('../src/task/marks.ts')} */
  const marks = await jiti.import(join(root, 'src/task/marks.ts'));
  /** @type {typeof import('../src/adapters/redis/record-layout.ts')} */
  const layout = await jiti.import(join(root, 'src/adapters/redis/record-layout.ts'));
  /** @type {typeof import('../src/wire/python-exceptions.ts')} */
  const exceptions = await jiti.import(join(root, 'src/wire/python-exceptions.ts'));
  /** @type {typeof import('../src/ledger/tallies.ts')} */
  const tallies = await jiti.import(join(root, 'src/ledger/tallies.ts'));
  const count = Object.keys(layout.POSITIONS).length;
  return {
    constants: {
      ...named('MARK', marks.MARKS),
      MARK_NOTHING_FOLLOWS: marks.NOTHING_FOLLOWS,
      MARK_BODY_END: `${marks.NOTHING_FOLLOWS}]`,
      MARK_DIGEST_CONFLICT: JSON.stringify(marks.DIGEST_CONFLICT),
      MARK_PYTHON_EXCEPTIONS: exceptions.PYTHON_EXCEPTIONS,
      ...named('STATE', layout.RECORD_STATES),
      ...named('STEP', layout.HISTORY_STEPS),
      LAYOUT_INLINE_BYTES: layout.INLINE_BYTES,
      LAYOUT_MOST_SERIES: tallies.MOST_SERIES,
      LAYOUT_OTHER_NAME: tallies.OTHER_NAME,
      LAYOUT_MINUTES_KEPT_MS: tallies.MINUTES_KEPT_MS,
      LAYOUT_BUCKETS_KEPT_MS: tallies.BUCKETS_KEPT_MS,
      LAYOUT_MOST_AHEAD_MS: tallies.MOST_AHEAD_MS,
      LAYOUT_RECORD_SHAPE: layout.RECORD_SHAPE,
      // How MessagePack begins an array of so many.
      LAYOUT_RECORD_HEAD: String.fromCharCode(0xdc, count >> 8, count & 0xff),
    },
    includes: {
      'record-positions': locals(layout.RECORD_GROUPS, layout.POSITIONS),
      'begin-answers': locals([Object.keys(layout.BEGIN_ANSWERS)], layout.BEGIN_ANSWERS),
    },
    codes: new Set(
      readFileSync(join(root, 'src/errors/codes.ts'), 'utf8').match(/\bERR_[A-Z_]+\b/g),
    ),
  };
}

const IN_SQL = /:'(mark_[a-z_]+)'/g;
const IN_LUA = /\b(?:MARK|STATE|STEP|LAYOUT)_[A-Z_]+\b/g;

/**
 * A statement with the values of its marks. psql takes the same names as variables.
 * @param {string} text
 * @param {Constants} constants
 */
export function sqlWithMarks(text, constants) {
  return text.replace(IN_SQL, (found, /** @type {string} */ name) => {
    const value = constants[name.toUpperCase()];
    return value === undefined ? found : `'${String(value).replaceAll("'", "''")}'`;
  });
}

/**
 * A script with the values of its constants.
 * @param {string} text
 * @param {Constants} constants
 */
export function luaWithMarks(text, constants) {
  return text.replace(IN_LUA, name => {
    const value = constants[name];
    if (value === undefined) return name;
    return typeof value === 'number' ? String(value) : luaText(value);
  });
}

/** @param {string} text */
function luaText(text) {
  const escaped = text.replace(/[^ -~]|['\\]/g, character =>
    /['\\]/.test(character)
      ? `\\${character}`
      : `\\${String(character.charCodeAt(0)).padStart(3, '0')}`,
  );
  return `'${escaped}'`;
}

/**
 * Why a file cannot be embedded: it names a mark or a code that does not exist. Null: it can.
 * @param {string} text
 * @param {Shared} shared
 */
export function whyNotShared(text, { constants, codes }) {
  const names = [
    ...[...text.matchAll(IN_SQL)].map(match => (match[1] ?? '').toUpperCase()),
    ...[...text.matchAll(IN_LUA)].map(match => match[0]),
  ];
  const unknown = names.find(name => !(name in constants));
  if (unknown !== undefined)
    return `it names ${unknown}, which scripts/shared-marks.mjs does not know`;
  const code = (text.match(/\bERR_[A-Z_]+\b/g) ?? []).find(found => !codes.has(found));
  return code === undefined ? null : `it names ${code}, which is no code of src/errors/codes.ts`;
}
