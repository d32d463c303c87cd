import type { ScheduleSpec } from '../../src/config/schedule.ts';
import { task } from '../../src/task/define-task.ts';
import type { SeededRandom } from './seeded-random.ts';
import { WORK } from './task-plan.ts';

type Spec = Pick<ScheduleSpec, 'jitterMs' | 'graceMs' | 'catchUp' | 'maxCatchUp' | 'overlap'>;

/** When a schedule fires. All slots are whole seconds: they can be counted without the code that is tested. */
export interface Timetable extends Spec {
  readonly kind: 'every' | 'cron';
  readonly seconds: number;
  readonly endMs: number;
}

/** What an operator does with a schedule. */
export interface Errand {
  readonly atMs: number;
  readonly name: string;
  readonly act: { readonly do: 'put'; readonly timetable: Timetable } | { readonly do: PlainAct };
}

export type PlainAct = 'pause' | 'resume' | 'remove';

/** Midnight of some day: wall clocks need a date. */
export const DAY_ZERO_MS: number = Date.UTC(2026, 0, 1);

const SECOND_MS = 1_000;
const CALL = task(WORK, { queue: 'bulk' }).with();

export function specOf(name: string, timetable: Timetable): ScheduleSpec {
  const { kind, seconds, ...rest } = timetable;
  const timing =
    kind === 'every'
      ? { everyMs: seconds * SECOND_MS }
      : { cron: `*/${seconds} * * * * *`, timeZone: 'UTC' };
  return { name, call: CALL, ...timing, ...rest };
}

export function hasSameSlots(one: Timetable, other: Timetable): boolean {
  return one.kind === other.kind && one.seconds === other.seconds && one.endMs === other.endMs;
}

function isSlot({ kind, seconds, endMs }: Timetable, atMs: number): boolean {
  const second = atMs / SECOND_MS;
  return atMs <= endMs && (kind === 'every' ? second : second % 60) % seconds === 0;
}

/** All slots between two instants, both included, by looking at every second. */
function slotsWithin(timetable: Timetable, fromMs: number, untilMs: number): number[] {
  const slots: number[] = [];
  const firstMs = Math.ceil(fromMs / SECOND_MS) * SECOND_MS;
  for (let atMs = firstMs; atMs <= untilMs; atMs += SECOND_MS)
    if (isSlot(timetable, atMs)) slots.push(atMs);
  return slots;
}

/** No two slots are further apart than this. */
const FURTHEST_MS = 60_000;

export function firstSlotAfter(timetable: Timetable, afterMs: number): number | null {
  return slotsWithin(timetable, afterMs + 1, afterMs + FURTHEST_MS)[0] ?? null;
}

/** What is owed of slots that nobody has decided about: the rule of the guide, written down once more. */
export function owedOf(
  timetable: Timetable,
  fromMs: number,
  nowMs: number,
): { readonly slots: readonly number[]; readonly missed: number } {
  const { graceMs, catchUp, maxCatchUp } = timetable;
  const due = slotsWithin(timetable, fromMs, nowMs);
  const onTime = due.filter(slotMs => slotMs >= nowMs - graceMs);
  const late = due.filter(slotMs => slotMs < nowMs - graceMs);
  const most = { skip: 0, one: onTime.length > 0 ? 0 : 1, all: maxCatchUp }[catchUp];
  const madeUp = most === 0 ? [] : late.slice(-most);
  return { slots: [...madeUp, ...onTime], missed: late.length - madeUp.length };
}

function drawTimetable(random: SeededRandom, endMs: number): Timetable {
  const roll = random.next();
  return {
    kind: random.chance(0.7) ? 'every' : 'cron',
    seconds: random.int(1, 5),
    endMs,
    jitterMs: random.chance(0.2) ? random.int(1, 3_000) : 0,
    graceMs: random.int(500, 2_500),
    catchUp: random.pick(['skip', 'one', 'all', 'all']),
    maxCatchUp: random.int(1, 3),
    overlap: roll < 0.6 ? 'allow' : roll < 0.8 ? 'skip' : 'wait',
  };
}

/** At a whole second or a moment later: then schedulers are at work, and both change one schedule. */
const nearSlot = (random: SeededRandom, fromMs: number, untilMs: number): number =>
  random.int(Math.ceil(fromMs / SECOND_MS), Math.floor(untilMs / SECOND_MS)) * SECOND_MS +
  random.int(0, 40);

/** What follows a change after a while, and a put that changes little, all or nothing. */
function errandsAfter(random: SeededRandom, name: string, now: Timetable, atMs: number): Errand[] {
  const laterMs = atMs + random.int(0, 6_000);
  const other = drawTimetable(random, now.endMs);
  const put = (timetable: Timetable, whenMs: number): Errand => ({
    atMs: whenMs,
    name,
    act: { do: 'put', timetable },
  });
  const roll = random.next();
  if (roll < 0.3)
    return [
      { atMs, name, act: { do: 'pause' } },
      { atMs: laterMs, name, act: { do: 'resume' } },
    ];
  if (roll < 0.6) return [{ atMs, name, act: { do: 'remove' } }, put(other, laterMs)];
  if (roll < 0.8) return [put(other, atMs)];
  const { kind, seconds } = now;
  return [put(roll < 0.9 ? { ...other, kind, seconds } : now, atMs)];
}

/** What is done with schedules in one run, from the first put on. */
export function drawErrands(random: SeededRandom, faultMs: number): Errand[] {
  const errands: Errand[] = [];
  for (const name of ['first', 'second'].slice(0, random.int(1, 2))) {
    const lastMs = Math.floor(faultMs * (0.6 + 0.3 * random.next()));
    const timetable = drawTimetable(random, DAY_ZERO_MS + lastMs);
    errands.push({ atMs: random.int(0, 2_000), name, act: { do: 'put', timetable } });
    for (let left = random.int(1, 3); left > 0; left--)
      errands.push(...errandsAfter(random, name, timetable, nearSlot(random, 4_000, lastMs)));
  }
  return errands;
}
