import { readSchedule } from '../config/schedule.ts';
import type { ScheduleOptions } from '../config/options.generated.ts';
import type { Context } from '../context/context.ts';
import { scheduleOperations } from '../process/scheduler-service.ts';
import type { StoredSchedule } from '../schedule/schedule-store.ts';
import type { ScheduleOperations } from '../schedule/schedules.ts';

/** A schedule as people see it. */
export interface ScheduleDetails {
  readonly name: string;
  readonly task: string;
  /** The pattern with its time zone, or the length between two slots. */
  readonly when: string;
  /** `undeclared`: from a configuration that no running process has any more. `ended`: it has no further slot. */
  readonly state: 'active' | 'paused' | 'undeclared' | 'ended';
  readonly origin: 'config' | 'api';
  readonly nextSlot: Date | null;
  readonly lastSlot: Date | null;
  readonly lastTask: string | null;
  readonly fired: number;
  readonly missed: number;
  /** Why it does not fire, or why its newest definition is not used; null: all is well. */
  readonly error: string | null;
  /** Two running processes have it in different ways in their configurations. */
  readonly isDisputed: boolean;
}

/** Tasks that are sent by the clock. */
export interface Schedules {
  /** Stores a schedule, or changes it; a repeat changes nothing. */
  put(name: string, options: ScheduleOptions): Promise<'new' | 'changed' | 'same'>;
  /** False: there was none. */
  remove(name: string): Promise<boolean>;
  /** All of them, by name. */
  list(): Promise<readonly ScheduleDetails[]>;
  /** Stops it, whatever restarts. False: it was paused already. */
  pause(name: string): Promise<boolean>;
  /** It goes on with its next slot; those that have passed are not made up for. False: it was not paused. */
  resume(name: string): Promise<boolean>;
  /** Sends its task at once, beside its slots; returns the id. */
  runNow(name: string): Promise<string>;
}

const PAGE = 200;

export function createSchedules(context: Context): Schedules {
  const operations = async (): Promise<ScheduleOperations> =>
    await scheduleOperations(context, await context.stores());
  return {
    put: async (name, options) => {
      const spec = readSchedule(name, options, name);
      const own = await operations();
      return await own.put(await own.prepare(spec), { origin: 'api' });
    },
    remove: async name => await (await operations()).remove(name),
    list: async () => await listSchedules(context),
    pause: async name => await (await operations()).pause(name),
    resume: async name => await (await operations()).resume(name),
    runNow: async name => await (await operations()).runNow(name),
  };
}

async function listSchedules(context: Context): Promise<readonly ScheduleDetails[]> {
  const { schedules: store } = await context.stores();
  const { nowMs } = await store.clock();
  const found: ScheduleDetails[] = [];
  for (let after = ''; ; after = found.at(-1)?.name ?? '') {
    const page = await store.list(after, PAGE);
    found.push(...page.map(schedule => detailsOf(schedule, nowMs)));
    if (page.length < PAGE) return found;
  }
}

function detailsOf(schedule: StoredSchedule, nowMs: number): ScheduleDetails {
  const { name, origin, lastTask, fired, missed, error } = schedule;
  const date = (ms: number | null): Date | null => (ms === null ? null : new Date(ms));
  const nextSlot = date(schedule.nextSlotMs);
  return {
    name,
    ...shownDefinition(schedule.definition),
    state: stateOf(schedule, nowMs),
    origin,
    nextSlot,
    lastSlot: date(schedule.lastSlotMs),
    lastTask,
    fired,
    missed,
    error,
    isDisputed: (schedule.disputedUntilMs ?? 0) > nowMs,
  };
}

function stateOf(
  { isPaused, declaredUntilMs, nextSlotMs }: StoredSchedule,
  nowMs: number,
): ScheduleDetails['state'] {
  if (isPaused) return 'paused';
  if (declaredUntilMs !== null && declaredUntilMs <= nowMs) return 'undeclared';
  return nextSlotMs === null ? 'ended' : 'active';
}

/** Of one that cannot be read, nothing is known. */
function shownDefinition(text: string): Pick<ScheduleDetails, 'task' | 'when'> {
  try {
    const { task, cron, timeZone, everyMs } = JSON.parse(text) as {
      readonly task: { readonly name: string };
      readonly cron?: string;
      readonly timeZone?: string;
      readonly everyMs?: number;
    };
    const when = cron === undefined ? `every ${Number(everyMs) / 1_000} s` : `${cron} ${timeZone}`;
    return { task: task.name, when };
  } catch {
    return { task: '?', when: '?' };
  }
}
