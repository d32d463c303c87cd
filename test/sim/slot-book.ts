import type { NewTask } from '../../src/outbox/outbox-writer.ts';
import type { ScheduleChange } from '../../src/schedule/schedule-store.ts';
import { slotIn } from '../../src/task/schedule-headers.ts';
import type { EnvelopeOptions } from '../../src/task/envelope.ts';
import type { Checker, ViolationKind } from './checker.ts';
import {
  firstSlotAfter,
  hasSameSlots,
  owedOf,
  type PlainAct,
  type Timetable,
} from './timetable.ts';

/** Who asks for a change and what for, and what the store's clock had told it. */
export type Intent = { readonly toldMs: number } & (
  | { readonly by: 'scheduler' | PlainAct }
  | { readonly by: 'put'; readonly timetable: Timetable }
);

interface Entry {
  readonly timetable: Timetable;
  /** The first slot that nobody has decided about. */
  readonly nextMs: number | null;
  readonly isPaused: boolean;
  readonly lastTask: string | null;
  readonly fired: number;
  readonly missed: number;
}

interface Expected {
  readonly slots: readonly number[];
  readonly missed: number;
  readonly nextMs: number | null;
}

interface SlotBookDeps {
  readonly clock: { now(): number };
  readonly checker: Checker;
  /** A clock that is set back brings slots again where a schedule is put or goes on. */
  readonly canClockJump: boolean;
  readonly isOver: (id: string) => boolean;
}

const NONE = { slots: [], missed: 0 } as const;

/**
 * Keeps its own account of which slots are owed, from what was committed and what the store's clock had told, and compares
 * every change with it: each slot that is owed is sent once, and no other.
 */
export class SlotBook {
  /** Tasks of slots that were committed. */
  readonly sent = new Set<string>();
  readonly #deps: SlotBookDeps;
  readonly #intents = new WeakMap<ScheduleChange, Intent>();
  readonly #entries = new Map<string, Entry>();
  readonly #slots = new Map<string, Set<number>>();
  #highestMs = 0;

  constructor(deps: SlotBookDeps) {
    this.#deps = deps;
  }

  /** Whether every slot was decided about. */
  get isQuiet(): boolean {
    return [...this.#entries.values()].every(({ isPaused, nextMs }) => isPaused || nextMs === null);
  }

  announce(change: ScheduleChange, intent: Intent): void {
    this.#intents.set(change, intent);
  }

  /** The clock is about to be set. */
  onClock(): void {
    this.#highestMs = Math.max(this.#highestMs, this.#deps.clock.now());
  }

  /** Called inside the commit of a task. */
  onTask(task: NewTask): void {
    const { name, slotMs } = slotOf(task);
    const { checker, canClockJump } = this.#deps;
    this.onClock();
    const slots = this.#slots.get(name) ?? new Set();
    this.#slots.set(name, slots);
    if (slots.has(slotMs)) this.#report('slot-twice', name, slotMs, 'was sent twice');
    const earlyMs = slotMs - this.#highestMs;
    if (earlyMs > 0) this.#report('slot-early', name, slotMs, `was sent ${earlyMs} ms early`);
    slots.add(slotMs);
    this.sent.add(task.id);
    if (!canClockJump) checker.expectEta(task.id, task.etaMs ?? slotMs);
  }

  /** Called inside the commit of a change. */
  onChange(change: ScheduleChange): void {
    const intent = this.#intents.get(change);
    if (intent === undefined) throw new Error(`nobody has announced a change of ${change.name}`);
    const { name, to } = change;
    const old = this.#entries.get(name);
    if (to === null) return void this.#entries.delete(name);
    if (intent.by === 'scheduler' && (old === undefined || old.isPaused)) {
      const state = old === undefined ? 'removed' : 'paused';
      for (const task of change.tasks)
        this.#report('slot-unowed', name, slotOf(task).slotMs, `was sent though it is ${state}`);
      return;
    }
    const expected = this.#expected(change, old, intent);
    this.#compare(change, old, expected);
    this.#entries.set(name, {
      timetable: intent.by === 'put' ? intent.timetable : (old?.timetable ?? never(name)),
      nextMs: to.nextSlotMs,
      isPaused: intent.by === 'pause' || (intent.by !== 'resume' && (old?.isPaused ?? false)),
      lastTask: change.tasks.at(-1)?.id ?? old?.lastTask ?? null,
      fired: to.fired,
      missed: to.missed,
    });
  }

  /** When the time to recover is over. */
  judge(): void {
    for (const [name, { nextMs, isPaused }] of this.#entries)
      if (!isPaused && nextMs !== null)
        this.#report('slot-missed', name, nextMs, 'is due, and nobody has decided about it');
  }

  #expected(change: ScheduleChange, old: Entry | undefined, intent: Intent): Expected {
    const { by, toldMs } = intent;
    if (by === 'scheduler' && old !== undefined) return this.#afterLook(change, old, toldMs);
    const timetable = by === 'put' ? intent.timetable : (old?.timetable ?? never(change.name));
    const anew = { ...NONE, nextMs: firstSlotAfter(timetable, toldMs) };
    if (old === undefined) return this.#restarted(change.name, toldMs, anew);
    const kept = { ...NONE, nextMs: old.nextMs };
    if (by === 'pause') return kept;
    if (by === 'resume') return this.#restarted(change.name, toldMs, anew);
    if (isEqual(old.timetable, timetable)) return kept;
    if (old.isPaused || old.nextMs === null) return this.#restarted(change.name, toldMs, anew);
    if (hasSameSlots(old.timetable, timetable)) return kept;
    const { slots, missed } = owedOf(old.timetable, old.nextMs, toldMs);
    this.#restarted(change.name, toldMs, anew);
    return old.timetable.overlap === 'allow'
      ? { ...anew, slots, missed }
      : { ...anew, missed: missed + slots.length };
  }

  /** The slots of a schedule are counted from now on. */
  #restarted(name: string, toldMs: number, anew: Expected): Expected {
    const slots = this.#slots.get(name) ?? new Set();
    if (this.#deps.canClockJump)
      for (const slotMs of slots) if (slotMs > toldMs) slots.delete(slotMs);
    return anew;
  }

  #afterLook(change: ScheduleChange, old: Entry, toldMs: number): Expected {
    const { timetable, nextMs: fromMs } = old;
    if (fromMs === null) return { ...NONE, nextMs: null };
    const { slots, missed } = owedOf(timetable, fromMs, toldMs);
    const all = { slots, missed, nextMs: firstSlotAfter(timetable, Math.max(toldMs, fromMs - 1)) };
    if (timetable.overlap === 'allow' || slots.length === 0) return all;
    const { tasks, to, name } = change;
    if (tasks.length === 0) {
      // The last task was not over when the scheduler asked, or the ledger did not say.
      const isHeld = to?.nextSlotMs === fromMs;
      if (isHeld) return { ...NONE, nextMs: fromMs };
      return timetable.overlap === 'wait'
        ? all
        : { ...all, slots: [], missed: missed + slots.length };
    }
    if (old.lastTask !== null && !this.#deps.isOver(old.lastTask))
      this.#report('overlapped', name, slots[0] ?? 0, `was sent while ${old.lastTask} is not over`);
    return timetable.overlap === 'wait'
      ? { slots: slots.slice(0, 1), missed, nextMs: slots[1] ?? all.nextMs }
      : { ...all, slots: slots.slice(-1), missed: missed + slots.length - 1 };
  }

  #compare({ name, to, tasks }: ScheduleChange, old: Entry | undefined, expected: Expected): void {
    const sent = tasks.map(task => slotOf(task).slotMs);
    for (const slotMs of expected.slots)
      if (!sent.includes(slotMs)) this.#report('slot-missed', name, slotMs, 'was passed over');
    for (const slotMs of sent)
      if (!expected.slots.includes(slotMs))
        this.#report('slot-unowed', name, slotMs, 'was sent and is not owed');
    const { nextSlotMs, fired, missed, error } = to ?? never(name);
    if (nextSlotMs !== expected.nextMs) {
      const isLater = (nextSlotMs ?? Infinity) > (expected.nextMs ?? Infinity);
      const what = `is next, and not ${shown(expected.nextMs)}`;
      this.#report(isLater ? 'slot-missed' : 'slot-unowed', name, nextSlotMs, what);
    }
    const counts = [(old?.fired ?? 0) + sent.length, (old?.missed ?? 0) + expected.missed];
    if (fired !== counts[0] || missed !== counts[1])
      this.#deps.checker.report(
        'unbalanced',
        `schedule ${name} counts ${fired} sent and ${missed} missed, and not ${counts.join(' and ')}`,
      );
    if (error !== null && !error.startsWith(SILENCE))
      this.#deps.checker.report('broke', `schedule ${name}: ${error}`);
  }

  #report(kind: ViolationKind, name: string, slotMs: number | null, what: string): void {
    this.#deps.checker.report(kind, `slot ${shown(slotMs)} of schedule ${name} ${what}`);
  }
}

/** What a scheduler notes while the ledger is away. */
const SILENCE = 'whether the last task is over is not known';

const shown = (ms: number | null): string =>
  ms === null ? 'none' : new Date(ms).toISOString().slice(11);

const isEqual = (one: Timetable, other: Timetable): boolean =>
  hasSameSlots(one, other) &&
  one.jitterMs === other.jitterMs &&
  one.graceMs === other.graceMs &&
  one.catchUp === other.catchUp &&
  one.maxCatchUp === other.maxCatchUp &&
  one.overlap === other.overlap;

const NO_SLOT = { name: '', slot: null };

function slotOf({ id, settings }: NewTask): { readonly name: string; readonly slotMs: number } {
  const { headers = {} } = JSON.parse(settings) as EnvelopeOptions;
  const { name, slot } = slotIn(headers) ?? NO_SLOT;
  if (slot === null) throw new Error(`${id} belongs to no slot`);
  return { name, slotMs: slot.getTime() };
}

function never(name: string): never {
  throw new Error(`schedule ${name} was changed before it was put`);
}
