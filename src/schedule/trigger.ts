import { Cron } from 'croner';
import { outlastError } from '../errors/error.ts';
import type { Definition } from './definition.ts';

/** When a schedule fires: its slots, as instants in milliseconds. */
export interface Trigger {
  /** The first slot after an instant; null: there is none. */
  next(afterMs: number): number | null;
  /** The newest slots from `sinceMs` to `untilMs`, both included, oldest first; at most `count`. */
  newest(count: number, sinceMs: number, untilMs: number): readonly number[];
}

const SECOND_MS = 1_000;
/** The library gives as many as it is asked for, however far back they are. */
const BATCH = 10;

type Timing = Pick<Definition, 'cron' | 'timeZone' | 'everyMs' | 'startMs' | 'endMs'>;

/** The slots of a definition. @throws ERR_SCHEDULE_INVALID for a pattern or a time zone that is none */
export function triggerOf(name: string, timing: Timing): Trigger {
  const { cron, everyMs, startMs = -Infinity, endMs = Infinity } = timing;
  const slots =
    cron === undefined
      ? interval(everyMs ?? SECOND_MS, timing.startMs ?? 0)
      : calendar(name, cron, timing.timeZone ?? 'UTC');
  return {
    next: afterMs => {
      const slotMs = slots.next(Math.max(afterMs, startMs - 1));
      return slotMs === null || slotMs > endMs ? null : slotMs;
    },
    newest: (count, sinceMs, untilMs) =>
      slots.newest(count, Math.max(sinceMs, startMs), Math.min(untilMs, endMs)),
  };
}

/** Counted from `start`, else from 1970: the same slots in every process, whenever it was started. */
function interval(everyMs: number, anchorMs: number): Trigger {
  const at = (index: number): number => anchorMs + index * everyMs;
  return {
    next: afterMs => at(Math.floor((afterMs - anchorMs) / everyMs) + 1),
    newest: (count, sinceMs, untilMs) => {
      const last = Math.floor((untilMs - anchorMs) / everyMs);
      const first = Math.max(Math.ceil((sinceMs - anchorMs) / everyMs), last - count + 1);
      return Array.from({ length: Math.max(0, last - first + 1) }, (_, nth) => at(first + nth));
    },
  };
}

function calendar(name: string, pattern: string, timeZone: string): Trigger {
  const cron = readCron(name, pattern, timeZone);
  return {
    next: afterMs => cron.nextRun(new Date(afterMs))?.getTime() ?? null,
    newest: (count, sinceMs, untilMs) => {
      const found: number[] = [];
      // The library looks before the second of its reference.
      let before = new Date((Math.floor(untilMs / SECOND_MS) + 1) * SECOND_MS);
      while (found.length < count && before.getTime() > sinceMs) {
        const runs = cron.previousRuns(Math.min(count - found.length, BATCH), before);
        const inside = runs.map(run => run.getTime()).filter(ms => ms >= sinceMs && ms <= untilMs);
        found.push(...inside);
        const oldest = inside.at(-1);
        if (oldest === undefined || inside.length < runs.length) break;
        before = new Date(oldest);
      }
      return found.toSorted((a, b) => a - b);
    },
  };
}

function readCron(name: string, pattern: string, timeZone: string): Cron {
  try {
    const cron = new Cron(pattern, { timezone: timeZone, paused: true });
    // Time zones are looked up by the first question only.
    cron.nextRun(new Date(0));
    return cron;
  } catch (cause) {
    const why = (cause as Error).message.slice(0, 200);
    throw outlastError('ERR_SCHEDULE_INVALID', {
      message: `schedule ${name}: \`${pattern}\` in ${timeZone} cannot be read: ${why}`,
      hint: "Write five fields, or six with seconds first, for example '0 3 * * *', and a time zone such as 'Europe/Berlin'.",
      fields: { schedule: name },
      cause,
    });
  }
}
