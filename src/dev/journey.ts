import type { HistoryEntry, TaskDetails } from '../ledger/dead-letter.ts';
import type { Station, Tone } from './view.ts';

/** A task that died a hundred times is still one card on the page: its first and its latest steps. */
const FIRST_SHOWN = 2;
const LAST_SHOWN = 11;

/** The history of a task as stations: what happened, where it is now, and what comes next. */
export function journeyOf(task: TaskDetails, dueAt: number | null): readonly Station[] {
  const past = [passed('Committed', task.createdAt), ...task.history.map(stationOf)];
  const last = past.at(-1);
  if (task.state === 'running' && last) {
    past[past.length - 1] = { ...last, label: 'Running', tone: 'live' };
  }
  return [...shorten(past), ...ahead(task, dueAt)];
}

function shorten(stations: readonly Station[]): readonly Station[] {
  const hidden = stations.length - FIRST_SHOWN - LAST_SHOWN;
  if (hidden <= 1) return stations;
  const gap = passed('…', null, `${hidden} more steps`);
  return [...stations.slice(0, FIRST_SHOWN), gap, ...stations.slice(-LAST_SHOWN)];
}

function stationOf(entry: HistoryEntry): Station {
  const { at, step, epoch, worker, error } = entry;
  const process = processOf(worker);
  switch (step) {
    case 'relayed':
      return passed('Relayed', at);
    case 'arrived':
      return passed('Arrived', at);
    case 'begun':
      return passed('Ran', at, `${process}, epoch ${epoch}`);
    case 'reaped':
      return passed('Brought back', at, `${process} died`, 'warn');
    case 'crashed':
      return passed('Crashed', at, error?.message ?? null, 'warn');
    case 'failed':
      return passed('Failed', at, error?.message ?? null, 'warn');
    case 'released':
      return passed('Given back', at, `${process} stopped`);
    case 'revived':
      return passed('Retried', at, 'by hand');
    case 'done':
      return passed('Done', at, null, 'good');
    case 'discarded':
      return passed('Discarded', at, null, 'good');
    case 'dead':
    case 'buried':
      return passed('Dead letter', at, error?.message ?? `${process} died once too often`, 'bad');
    default:
      // Cancelled, expired, and steps of later versions: the name of the step is clear enough.
      return passed(step.charAt(0).toUpperCase() + step.slice(1), at, error?.message ?? null);
  }
}

function ahead(task: TaskDetails, dueAt: number | null): readonly Station[] {
  switch (task.state) {
    case 'pending':
      return [coming('Relayed', dueAt), coming('Running'), coming('Done')];
    case 'waiting':
      return [coming(task.epoch > 0 ? 'Next run' : 'Running', dueAt), coming('Done')];
    case 'running':
      return [coming('Done')];
    case 'done':
    case 'dead':
    case 'cancelled':
    case 'unknown':
      return [];
  }
}

const passed = (
  label: string,
  at: string | null,
  detail: string | null = null,
  tone: Tone = 'plain',
): Station => ({ label, at, detail, tone, dueAt: null });

const coming = (label: string, dueAt: number | null = null): Station => ({
  label,
  at: null,
  detail: null,
  tone: 'next',
  dueAt,
});

/** Incarnations are called host:pid:token. */
function processOf(worker: string | undefined): string {
  const pid = /:(\d+):[^:]+$/.exec(worker ?? '')?.[1];
  return pid === undefined ? 'its worker' : `pid ${pid}`;
}
