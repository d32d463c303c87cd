import type { ProgressView, Station, TaskView } from '../view.ts';
import { make, type PageElement } from './element.ts';
import { formatClock, formatMs, plural } from './format.ts';

export interface DrawOptions {
  readonly onRetry: (task: TaskView) => void;
}

const STATES: Readonly<Record<TaskView['state'], string>> = {
  pending: 'Pending',
  waiting: 'Waiting',
  running: 'Running',
  done: 'Done',
  dead: 'Dead letter',
  cancelled: 'Cancelled',
  unknown: 'Unknown',
};

/** The content of a task's card. */
export function drawTask(task: TaskView, { onRetry }: DrawOptions): PageElement[] {
  const heading = make('header', {}, [
    make('h3', {}, task.title ?? task.name),
    make('span', { class: `state ${task.state}` }, STATES[task.state]),
  ]);
  const parts = [heading, drawAbout(task), drawTrack(task.stations)];
  const isOver = task.state === 'done' || task.state === 'cancelled' || task.state === 'dead';
  if (task.progress && !isOver) parts.push(drawProgress(task.progress, task.state));
  if (task.deadVersion !== null) {
    const label = task.title === null ? 'Retry' : 'Fix the card and retry';
    const button = make('button', { type: 'button' }, label);
    button.addEventListener('click', () => onRetry(task));
    parts.push(make('footer', {}, [button]));
  }
  return parts;
}

function drawAbout(task: TaskView): PageElement {
  const { title, name, id, crashes, failures, receipts } = task;
  const facts = [make('code', {}, title === null ? id : `${name}  ${id}`)];
  const addFact = (text: string): void => void facts.push(make('span', {}, text));
  if (crashes > 0) addFact(`lost its worker ${crashes === 1 ? 'once' : `${crashes} times`}`);
  if (failures > 0) addFact(plural(failures, 'failure'));
  if (receipts !== null) addFact(receipts === 0 ? 'no receipt yet' : plural(receipts, 'receipt'));
  return make('p', { class: 'about' }, facts);
}

/** Each station shows the time since the one before: that is where the time went. */
function drawTrack(stations: readonly Station[]): PageElement {
  let before: string | null = null;
  const items = stations.map(station => {
    const { label, detail, tone } = station;
    const lines = [make('b', {}, label), drawTime(station, before)];
    if (detail !== null) lines.push(make('span', { class: 'detail' }, detail));
    if (station.at !== null) before = station.at;
    return make('li', { class: tone }, lines);
  });
  return make('ol', { class: 'track' }, items);
}

function drawTime({ at, dueAt, tone }: Station, before: string | null): PageElement {
  if (tone === 'live' && at !== null) return make('span', { 'data-since': at });
  if (at === null) return make('span', dueAt === null ? {} : { 'data-due': String(dueAt) });
  if (before === null) return make('span', {}, formatClock(at));
  return make('span', {}, `+${formatMs(Date.parse(at) - Date.parse(before))}`);
}

function drawProgress(progress: ProgressView, state: TaskView['state']): PageElement {
  if (progress.kind === 'text') {
    return make('p', { class: 'progress' }, [make('code', {}, `checkpoint ${progress.text}`)]);
  }
  const { step, of, label } = progress;
  const bar = { value: String(step), max: String(of), 'aria-label': 'Progress' };
  const position = `step ${Math.min(step + 1, of)} of ${of}`;
  const isRunning = state === 'running';
  return make('p', { class: 'progress' }, [
    make('progress', bar),
    make('span', {}, isRunning ? `${label} (${position})` : `goes on at ${position}: ${label}`),
  ]);
}
