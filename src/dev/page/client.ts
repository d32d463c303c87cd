import type { Counts, Snapshot, TaskView, WorkerView } from '../view.ts';
import { drawTask } from './draw-task.ts';
import { byId, make, openLive, page, type PageElement } from './element.ts';
import { formatDue, formatSince } from './format.ts';

/** The page in the browser: draws what the server sends and posts what the user presses. */

interface Drawn {
  readonly element: PageElement;
  task: TaskView;
  text: string;
}

const TICK_MS = 250;
const cards = new Map<string, Drawn>();
const chips = new Map<number, PageElement>();

let isDraining = false;
let isAway = true;

function show(snapshot: Snapshot): void {
  isDraining = snapshot.isDraining;
  setAway(false);
  byId('database').textContent = `Tasks that outlast crashes, on ${snapshot.database}`;
  showBanner(isDraining ? 'Stopping: what runs is finished or given back first.' : null);
  showCounts(snapshot.counts);
  showWorkers(snapshot.workers);
  showTasks(snapshot.tasks);
  const kill = page.getElementById('kill');
  kill?.setAttribute(
    'aria-disabled',
    String(snapshot.workers.every(({ running }) => running === 0)),
  );
  tick();
}

/** The server does not answer: the page shows an old state, so its clocks stand still. */
function setAway(is: boolean): void {
  isAway = is;
  page.body.classList.toggle('away', is);
}

function showBanner(text: string | null): void {
  const banner = byId('banner');
  banner.hidden = text === null;
  if (banner.textContent !== text) banner.textContent = text;
}

function showCounts(counts: Counts): void {
  for (const cell of byId('counts').querySelectorAll('[data-count]')) {
    const count = counts[cell.dataset['count'] as keyof Counts];
    const number = cell.querySelector('dd');
    if (number) number.textContent = String(count);
    cell.classList.toggle('some', count > 0);
  }
}

function showWorkers(workers: readonly WorkerView[]): void {
  for (const [pid, chip] of chips) {
    if (workers.some(worker => worker.pid === pid)) continue;
    chip.remove();
    chips.delete(pid);
  }
  for (const { pid, running } of workers) {
    const chip = chips.get(pid) ?? addChip(pid);
    chip.classList.toggle('busy', running > 0);
    const label = chip.querySelector('.doing');
    if (label) label.textContent = running > 0 ? `running ${running}` : 'idle';
  }
}

function addChip(pid: number): PageElement {
  const button = make('button', { type: 'button', 'aria-label': `Kill worker ${pid}` }, 'Kill');
  button.addEventListener('click', () => void act('/api/workers/kill', { pid }));
  const parts = [make('code', {}, `pid ${pid}`), make('span', { class: 'doing quiet' }), button];
  const chip = make('li', { class: 'worker' }, parts);
  chips.set(pid, chip);
  byId('workers').append(chip);
  return chip;
}

/** New tasks come on top and old ones leave at the bottom; the others stay where they are. */
function showTasks(tasks: readonly TaskView[]): void {
  byId('empty').hidden = tasks.length > 0;
  const shown = new Set(tasks.map(task => task.id));
  for (const [id, { element }] of cards) {
    if (shown.has(id)) continue;
    element.remove();
    cards.delete(id);
  }
  for (const task of tasks.toReversed()) {
    const text = JSON.stringify(task);
    const card = cards.get(task.id) ?? addCard(task);
    if (card.text === text) continue;
    announceChanges(card.task, task);
    fill(card.element, task);
    card.task = task;
    card.text = text;
  }
}

function addCard(task: TaskView): Drawn {
  const element = make('li', { class: 'task', 'data-task': task.id, tabindex: '-1' });
  const card = { element, task, text: '' };
  cards.set(task.id, card);
  byId('tasks').prepend(element);
  return card;
}

function fill(element: PageElement, task: TaskView): void {
  const hadFocus = element.contains(page.activeElement);
  element.replaceChildren(...drawTask(task, { onRetry }));
  // The button that was pressed is gone; its card is the next best focus for keyboard users.
  if (hadFocus) (element.querySelector('button') ?? element).focus();
}

function onRetry({ id, deadVersion }: TaskView): void {
  void act('/api/tasks/retry', { id, version: deadVersion });
}

/** For screen readers: the turning points of a task, not every step. */
function announceChanges(before: TaskView, after: TaskView): void {
  const what = after.title ?? after.name;
  if (after.crashes > before.crashes) announce(`${what}: brought back after its worker died`);
  else if (after.state !== before.state && after.state === 'done') announce(`${what}: done`);
  else if (after.state !== before.state && after.state === 'dead') announce(`${what}: dead letter`);
}

function announce(text: string): void {
  byId('news').textContent = text;
}

async function act(path: string, body: object): Promise<void> {
  const headers = { 'content-type': 'application/json' };
  try {
    const answer = await fetch(path, { method: 'POST', headers, body: JSON.stringify(body) });
    const data = (await answer.json()) as { message?: string; error?: { message: string } };
    showMessage(data.error?.message ?? data.message ?? '', !answer.ok);
  } catch {
    showMessage('Outlast dev does not answer.', true);
  }
}

function showMessage(text: string, isFailure: boolean): void {
  const message = page.getElementById('message');
  if (message === null) return announce(text);
  message.classList.toggle('failed', isFailure);
  message.textContent = text;
}

/** Moves the clocks on the page. */
function tick(): void {
  if (isAway) return;
  const now = Date.now();
  const tasks = byId('tasks');
  for (const clock of tasks.querySelectorAll('[data-due]')) {
    clock.textContent = formatDue(Number(clock.dataset['due']), now);
  }
  for (const clock of tasks.querySelectorAll('[data-since]')) {
    clock.textContent = formatSince(Date.parse(clock.dataset['since'] ?? ''), now);
  }
}

function listenToShop(form: PageElement): void {
  const field = (name: string): string => form.querySelector(`[name="${name}"]`)?.value ?? '';
  form.addEventListener('submit', event => {
    event.preventDefault();
    const chosen = event.submitter?.value ?? 'commit';
    void act('/api/orders', {
      customer: field('customer'),
      item: field('item'),
      card: chosen === 'decline' ? 'declined' : 'valid',
      rollBack: chosen === 'roll-back',
    });
  });
  byId('kill').addEventListener('click', () => void act('/api/workers/kill', {}));
}

const form = page.getElementById('order');
if (form) listenToShop(form);
setInterval(tick, TICK_MS);
const live = openLive('/api/live');
live.addEventListener('snapshot', event => show(JSON.parse(event.data ?? '') as Snapshot));
// The browser reconnects by itself; the next snapshot removes this message.
live.addEventListener('error', () => {
  setAway(true);
  const what = isDraining ? 'Outlast dev has stopped.' : 'Outlast dev does not answer.';
  showBanner(`${what} This page goes on when it runs again.`);
});
