import { rowOf } from '../options/option.ts';
import { SCHEDULE_TABLE } from '../options/schedule-table.ts';
import { outlastError } from '../errors/error.ts';
import type { TaskCall } from '../task/define-task.ts';
import { safeName } from '../task/names.ts';
import { asRecord, dropUndefined, rangeError, refuseUnknown, shown } from './options.ts';
import { readValue } from './resolve-section.ts';

/** A schedule as it was given: checked, but for its pattern and its call. */
export interface ScheduleSpec {
  readonly name: string;
  readonly call: TaskCall;
  readonly cron?: string;
  readonly timeZone?: string;
  readonly everyMs?: number;
  readonly startMs?: number;
  readonly endMs?: number;
  readonly jitterMs: number;
  readonly graceMs: number;
  readonly catchUp: 'skip' | 'one' | 'all';
  readonly maxCatchUp: number;
  readonly overlap: 'allow' | 'skip' | 'wait';
}

/** Schedules of one configuration. */
const MOST = 1_000;
const LONGEST_TEXT = 256;

/** Checks the `schedule` section of a config. */
export function readSchedules(value: unknown): readonly ScheduleSpec[] {
  const given = dropUndefined(asRecord(value ?? {}, 'schedule'));
  const entries = Object.entries(given);
  if (entries.length > MOST)
    throw rangeError('schedule', `has ${entries.length} entries`, `Use ${MOST} at most.`);
  return Object.freeze(entries.map(([name, one]) => readSchedule(name, one, `schedule.${name}`)));
}

export function readSchedule(name: string, value: unknown, option: string): ScheduleSpec {
  safeName(name, 'schedule');
  const given = dropUndefined(asRecord(value, option));
  if ('solar' in given)
    throw rangeError(
      `${option}.solar`,
      'is not supported: sunrise and sunset need a place and an almanac',
      'Let a daily task compute the time and send the next one with `eta`.',
    );
  refuseUnknown(Object.keys(given), Object.keys(SCHEDULE_TABLE), key => `${option}.${key}`);
  if ('cron' in given === 'every' in given)
    throw conflict(
      option,
      ['cron', 'every'],
      'exactly one of `cron` and `every` says when it fires',
    );
  if ('timeZone' in given && !('cron' in given))
    throw conflict(option, ['timeZone', 'every'], '`timeZone` belongs to `cron`');
  const read = (key: string): unknown =>
    readValue(
      rowOf(SCHEDULE_TABLE, key, 'duration', 'choice', 'integer'),
      given[key] ?? SCHEDULE_TABLE[key]?.default,
      `${option}.${key}`,
    );
  const startMs = instantOf(given['start'], `${option}.start`);
  const endMs = instantOf(given['end'], `${option}.end`);
  if (startMs !== undefined && endMs !== undefined && startMs > endMs)
    throw conflict(option, ['start', 'end'], '`start` is after `end`');
  return Object.freeze({
    name,
    call: given['call'] as TaskCall,
    ...('cron' in given
      ? {
          cron: textOf(given['cron'], `${option}.cron`),
          timeZone: textOf(given['timeZone'] ?? 'UTC', `${option}.timeZone`),
        }
      : { everyMs: read('every') as number }),
    ...(startMs === undefined ? {} : { startMs }),
    ...(endMs === undefined ? {} : { endMs }),
    jitterMs: read('jitter') as number,
    graceMs: read('grace') as number,
    catchUp: read('catchUp') as ScheduleSpec['catchUp'],
    maxCatchUp: read('maxCatchUp') as number,
    overlap: read('overlap') as ScheduleSpec['overlap'],
  });
}

function textOf(value: unknown, option: string): string {
  if (typeof value === 'string' && value !== '' && value.length <= LONGEST_TEXT) return value;
  throw rangeError(
    option,
    `is ${shown(value)}`,
    `Write a text of up to ${LONGEST_TEXT} characters.`,
  );
}

function instantOf(value: unknown, option: string): number | undefined {
  if (value === undefined) return undefined;
  const text = typeof value === 'string' ? value : '';
  const ms = value instanceof Date ? value.getTime() : Date.parse(text);
  if (ms >= 0 && ms <= LATEST_MS) return ms;
  throw rangeError(
    option,
    `is ${shown(value)}`,
    "Write a Date, or a text: '2027-01-01T00:00:00Z'.",
  );
}

/** The end of the year 9999. */
const LATEST_MS = 253_402_300_799_999;

function conflict(option: string, keys: readonly string[], problem: string): Error {
  return outlastError('ERR_OPTIONS_CONFLICT', {
    message: `${option}: ${problem}`,
    hint: `Change one of: ${keys.join(', ')}.`,
    fields: { options: keys.map(key => `${option}.${key}`) },
  });
}
