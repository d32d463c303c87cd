import { outlastError } from '../errors/error.ts';
import { envIn } from '../options/option.ts';
import { TOP_LEVEL_TABLE } from '../options/top-level-table.ts';
import { ALL_OPTIONS, flagOf, OPTION_TABLE, type OptionRow } from './option-table.ts';
import {
  rangeError,
  refuseUnknown,
  SECTION_NAMES,
  shown,
  type NameOf,
  type SectionName,
} from './options.ts';
import { nearest } from '../options/nearest.ts';
import { queuesFromText } from './queues.ts';
import type { RelayOptions, ResurrectorOptions, WorkerOptions } from './options.generated.ts';

export type Env = Readonly<Record<string, string | undefined>>;

/** The options of each stage, as a user writes them. */
export interface SectionOptions {
  readonly relay: RelayOptions;
  readonly worker: WorkerOptions;
  readonly resurrector: ResurrectorOptions;
}

export interface EnvOptions extends SectionOptions {
  readonly database: string | undefined;
  readonly schema: string | undefined;
}

export const DATABASE_ENV: string = envIn(TOP_LEVEL_TABLE, 'database');

export const SCHEMA_ENV: string = envIn(TOP_LEVEL_TABLE, 'schema');

/** Reads every variable that is an option; rejects those that look like one and are not. */
export function optionsFromEnv(env: Env): EnvOptions {
  refuseUnknownVariables(env);
  const section = <S extends SectionName>(name: S): SectionOptions[S] => {
    const rows = OPTION_TABLE[name];
    const given = Object.fromEntries(rows.map(row => [row.key, env[row.env]]));
    return optionsFromText(name, given, key => rows.find(row => row.key === key)?.env ?? key);
  };
  return {
    database: env[DATABASE_ENV],
    schema: env[SCHEMA_ENV],
    relay: section('relay'),
    worker: section('worker'),
    resurrector: section('resurrector'),
  };
}

/**
 * Converts the texts of flags or variables to what a user would write in code. A bare number is
 * seconds if a duration is expected. Texts that are `undefined` were not given.
 *
 * @example
 * optionsFromText('relay', { idleTime: '0.5', batchSize: '5' }); // { idleTime: '0.5s', batchSize: 5 }
 */
export function optionsFromText<S extends SectionName>(
  section: S,
  given: Readonly<Record<string, string | undefined>>,
  nameOf: NameOf = flagOf,
): SectionOptions[S] {
  const rows = OPTION_TABLE[section];
  const texts = Object.entries(given).filter(([, text]) => text !== undefined);
  refuseUnknown(
    texts.map(([key]) => key),
    rows.map(row => row.key),
    nameOf,
  );
  const options: Record<string, unknown> = {};
  for (const row of rows) {
    const text = given[row.key];
    if (text !== undefined) options[row.key] = readText(row, text.trim(), nameOf(row.key));
  }
  return options;
}

const INTEGER = /^-?\d+$/;
const DECIMAL = /^-?(\d+\.?\d*|\.\d+)$/;

function readText(row: OptionRow, text: string, name: string): unknown {
  if (text === '') throw rangeError(name, 'is empty', 'Give it a value, or remove it.');
  switch (row.kind) {
    case 'integer':
      if (INTEGER.test(text)) return Number(text);
      throw rangeError(name, `is ${shown(text)}`, `Use a whole number, ${row.range}.`);
    case 'seconds':
      if (DECIMAL.test(text)) return Number(text);
      throw outlastError('ERR_OPTION_UNIT', {
        message: `\`${name}\` is ${shown(text)}, and its unit is in its name`,
        hint: `Use a number of seconds without a unit, ${row.range}.`,
        fields: { option: name },
      });
    case 'duration':
      return DECIMAL.test(text) ? `${Number(text)}s` : text;
    case 'path':
      return text === 'none' ? '' : text;
    case 'queues':
      return queuesFromText(text, name);
    case 'boolean':
      return text === 'true' ? true : text === 'false' ? false : text;
    default:
      return text;
  }
}

const SECTION_VARIABLE = new RegExp(`^OUTLAST_(${SECTION_NAMES.join('|').toUpperCase()})_`);
// Kubernetes and Docker set these in every container that runs next to a service named, say, `outlast-
// relay`.
const SERVICE_VARIABLE = /_(SERVICE_HOST|SERVICE_PORT|PORT_\d+_(TCP|UDP|SCTP))(_[A-Z0-9_]+)?$/;
const SERVICE_ADDRESS = /^(tcp|udp|sctp):\/\//;

function refuseUnknownVariables(env: Env): void {
  const known = new Set(ALL_OPTIONS.map(row => row.env));
  for (const [name, value] of Object.entries(env)) {
    const prefix = SECTION_VARIABLE.exec(name)?.[0];
    if (prefix === undefined || value === undefined || known.has(name)) continue;
    if (SERVICE_VARIABLE.test(name) || SERVICE_ADDRESS.test(value)) continue;
    throw unknownVariable(name, prefix);
  }
}

function unknownVariable(name: string, prefix: string): Error {
  // Compared without the common prefix: it would make every name look near.
  const known = ALL_OPTIONS.map(row => row.env).filter(env => env.startsWith(prefix));
  const near = nearest(
    name.slice(prefix.length),
    known.map(env => env.slice(prefix.length)),
  );
  const nearestName = near === null ? null : `${prefix}${near}`;
  return outlastError('ERR_UNKNOWN_OPTION', {
    message: `the variable \`${name}\` is not an option`,
    hint:
      nearestName === null
        ? `Known variables are ${known.join(', ')}. Remove it, or rename what is not for Outlast.`
        : `Did you mean \`${nearestName}\`?`,
    fields: { option: name, nearest: nearestName },
  });
}
