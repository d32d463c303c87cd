import type { OptionKind, OptionRow as Row, OptionTable } from '../options/option.ts';
import { RELAY_TABLE } from '../options/relay-table.ts';
import { RESURRECTOR_TABLE } from '../options/resurrector-table.ts';
import { WORKER_TABLE } from '../options/worker-table.ts';
import { SECTION_NAMES, type SectionName } from './options.ts';

/**
 * One option under all its names. Flags, variables and the reference page are generated from these rows.
 */
export interface OptionRow {
  readonly section: SectionName;
  /** As in code and config files: `batchSize`. */
  readonly key: string;
  /** As on the command line: `--batch-size`. */
  readonly flag: string;
  /** As in the environment: `OUTLAST_RELAY_BATCH_SIZE`. */
  readonly env: string;
  readonly kind: OptionKind;
  /** The default as a flag or variable would spell it. */
  readonly default: string;
  /** Other defaults and when they apply; empty: there are none. */
  readonly defaultNote: string;
  readonly sentence: string;
  /** The accepted values, for people. */
  readonly range: string;
}

const kebab = (key: string): string =>
  key.replaceAll(/[A-Z]/g, letter => `-${letter.toLowerCase()}`);
const snake = (key: string): string => kebab(key).replaceAll('-', '_').toUpperCase();

export const flagOf = (key: string): string => `--${kebab(key)}`;
export const envOf = (section: SectionName, key: string): string =>
  `OUTLAST_${section.toUpperCase()}_${snake(key)}`;

/** The accepted values, for people. */
export function rangeOf(row: Row): string {
  switch (row.kind) {
    case 'integer':
    case 'seconds':
      return `${row.min} to ${row.max}`;
    case 'duration':
      return row.max === undefined ? 'a duration' : `${row.min ?? '0ms'} to ${row.max}`;
    case 'choice':
      return row.choices.join(' or ');
    case 'boolean':
      return 'true or false';
    case 'path':
      return 'a path';
    case 'host':
      return 'an address or a name';
    case 'queues':
      return 'name, name=weight; comma between';
    case 'name':
    case 'key':
    case 'text':
      return 'a text';
    case 'list':
      return 'a list';
    case 'record':
    case 'group':
      return 'an object';
    case 'instant':
      return 'a `Date`';
    case 'moment':
      return 'a duration or a `Date`';
    case 'schema':
      return 'a Standard Schema';
    case 'function':
      return 'a function';
    case 'url':
      return 'a URL';
    case 'value':
      return row.type ?? 'a value';
  }
}

/** The unit of a flag of `outlast send`, if its sentence does not name it. */
export function textUnit({ kind }: Pick<Row, 'kind'>): string {
  if (kind === 'instant') return ' ISO 8601.';
  if (kind === 'moment') return ' Seconds, with a unit (10m), or ISO 8601.';
  return kind === 'duration' ? ' Seconds, or with a unit: 10m.' : '';
}

/** The table of every stage. */
export const STAGE_TABLES: Readonly<Record<SectionName, OptionTable>> = Object.freeze({
  relay: RELAY_TABLE,
  worker: WORKER_TABLE,
  resurrector: RESURRECTOR_TABLE,
});

/** As a flag or variable would spell it. */
const textOf = (value: Row['default']): string =>
  typeof value === 'object' ? Object.values(value).join(',') : String(value);

function otherDefaults(row: Row): string {
  if (row.kind === 'duration' && row.embedded !== undefined)
    return `; \`${row.embedded}\` on an embedded database`;
  if (row.kind === 'choice' && row.whenSigning !== undefined)
    return `; \`${row.whenSigning}\` with signing keys`;
  return '';
}

const rowsOf = (section: SectionName, table: OptionTable): readonly OptionRow[] =>
  Object.freeze(
    Object.entries(table).map(([key, row]) =>
      Object.freeze({
        section,
        key,
        flag: flagOf(key),
        env: envOf(section, key),
        kind: row.kind,
        default: textOf(row.default) || 'none',
        defaultNote: otherDefaults(row),
        sentence: row.sentence,
        range: rangeOf(row),
      }),
    ),
  );

/** Every option of every stage. */
export const OPTION_TABLE: Readonly<Record<SectionName, readonly OptionRow[]>> = Object.freeze({
  relay: rowsOf('relay', STAGE_TABLES.relay),
  worker: rowsOf('worker', STAGE_TABLES.worker),
  resurrector: rowsOf('resurrector', STAGE_TABLES.resurrector),
});

export const ALL_OPTIONS: readonly OptionRow[] = SECTION_NAMES.flatMap(name => OPTION_TABLE[name]);
