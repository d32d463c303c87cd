import { outlastError } from '../errors/error.ts';
import {
  resolvedName,
  type ChoiceRow,
  type DurationRow,
  type NumberRow,
  type OptionRow,
  type OptionTable,
} from '../options/option.ts';
import { durationMs, type Duration } from '../task/duration.ts';
import { safeName } from '../task/names.ts';
import {
  asRecord,
  dropUndefined,
  rangeError,
  refuseUnknown,
  shown,
  type NameOf,
  type SectionName,
} from './options.ts';
import { resolveQueues } from './queues.ts';

/** Options that are valid alone and invalid together. */
export interface Conflict<R> {
  readonly options: readonly string[];
  /** What must hold, for the reference page. */
  readonly sentence: string;
  readonly isBroken: (options: R) => boolean;
  readonly problem: (options: R) => string;
  readonly hint: (options: R, nameOf: NameOf) => string;
}

/** A combination that is legal, but seldom meant. */
export interface Oddity<R> {
  /** What is odd, for the reference page. */
  readonly sentence: string;
  readonly isOdd: (options: R) => boolean;
  readonly warning: (nameOf: NameOf) => string;
}

/** One stage's options: everything needed to read, check and describe them. */
export interface Section<R> {
  readonly name: SectionName;
  readonly table: OptionTable;
  readonly conflicts: readonly Conflict<R>[];
  readonly oddities: readonly Oddity<R>[];
}

/** The options of a stage, and warnings about them. */
export interface Resolution<R> {
  readonly options: R;
  readonly warnings: readonly string[];
}

const nameInSection =
  (section: SectionName): NameOf =>
  key =>
    `${section}.${key}`;

/** Checks the given options of a stage, fills in the defaults and checks the options against each other. */
export function resolveSection<R extends object>(
  section: Section<R>,
  given: object,
  nameOf: NameOf = nameInSection(section.name),
): Resolution<R> {
  const values = dropUndefined(asRecord(given, section.name));
  refuseUnknown(Object.keys(values), Object.keys(section.table), nameOf);
  const read = Object.entries(section.table).map(([key, row]) => {
    const value = Object.hasOwn(values, key) ? values[key] : row.default;
    return [resolvedName(key, row), readValue(row, value, nameOf(key))] as const;
  });
  // `options.generated.ts` has the type of what the rows produce.
  const options = Object.freeze(Object.fromEntries(read)) as R;
  for (const conflict of section.conflicts) {
    if (!conflict.isBroken(options)) continue;
    throw outlastError('ERR_OPTIONS_CONFLICT', {
      message: conflict.problem(options),
      hint: conflict.hint(options, nameOf),
      fields: { options: conflict.options.map(nameOf) },
    });
  }
  const odd = section.oddities.filter(({ isOdd }) => isOdd(options));
  return { options, warnings: odd.map(({ warning }) => warning(nameOf)) };
}

/** Reads a value according to its row; `option` names it in errors. Durations become whole milliseconds: stores take integers. */
export function readValue(row: OptionRow, value: unknown, option: string): unknown {
  switch (row.kind) {
    case 'integer': {
      const number = readNumber(row, value, option);
      return row.zeroIsNone && number === 0 ? null : number;
    }
    case 'seconds':
      return Math.round(readNumber(row, value, option) * 1_000);
    case 'duration':
      return readDuration(row, value, option);
    case 'choice':
      return readChoice(row, value, option);
    case 'path':
      if (typeof value === 'string' && !value.includes('\0')) return value === '' ? null : value;
      throw rangeError(option, `is ${shown(value)}`, "Write a path: '/tmp/alive'.");
    case 'host':
      if (typeof value === 'string' && /^[\w.:-]{1,255}$/.test(value)) return value;
      throw rangeError(option, `is ${shown(value)}`, "Write an address: '127.0.0.1'.");
    case 'name':
      return safeName(value as string, 'queue');
    case 'boolean':
      if (typeof value === 'boolean') return value;
      throw rangeError(option, `is ${shown(value)}`, 'Use true or false.');
    case 'queues':
      return resolveQueues(value, option);
    default:
      throw outlastError('ERR_INVARIANT', {
        message: `\`${option}\` is an option of the kind ${row.kind}, which is read elsewhere`,
        hint: 'This is a bug in Outlast: please report it.',
        fields: {},
      });
  }
}

function readNumber(row: NumberRow, value: unknown, option: string): number {
  const isWell = typeof value === 'number' && (row.kind === 'seconds' || Number.isInteger(value));
  if (isWell && value >= row.min && value <= row.max) return value;
  const what = row.kind === 'integer' ? 'a whole number' : 'a number of seconds';
  throw rangeError(option, `is ${shown(value)}`, `Use ${what} from ${row.min} to ${row.max}.`);
}

function readDuration(row: DurationRow, value: unknown, option: string): number {
  const ms = durationMs(value as Duration, option);
  const { min = '0ms', max = '36500d' } = row;
  if (ms >= durationMs(min, option) && ms <= durationMs(max, option)) return Math.round(ms);
  throw rangeError(option, `is ${shown(value)}`, `Use a duration from '${min}' to '${max}'.`);
}

function readChoice({ choices }: ChoiceRow, value: unknown, option: string): string {
  if (choices.includes(value as string)) return value as string;
  const known = choices.map(choice => `'${choice}'`).join(' or ');
  throw rangeError(option, `is ${shown(value)}`, `Use ${known}.`);
}
