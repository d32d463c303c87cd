import { isUnavailable } from '../errors/error.ts';
import type { LedgerReads } from '../ledger/ledger-reads.ts';
import type { OutboxReads } from '../outbox/outbox-reads.ts';
import { type Runtime, sleep } from '../runtime/runtime.ts';
import { RetryPace } from '../runtime/backoff.ts';
import type { Keyring } from '../task/keyring.ts';
import { type Decision, decide } from './decide.ts';
import { type Definition, digestOfDefinition, readDefinition } from './definition.ts';
import type { ScheduleStore, StoredSchedule } from './schedule-store.ts';
import { invalid, slotId, taskOf } from './template.ts';
import { triggerOf } from './trigger.ts';

export interface SchedulerDeps {
  readonly store: ScheduleStore;
  /** Tell whether the task of the last slot is over, for `overlap`. */
  readonly outboxReads: Pick<OutboxReads, 'find'>;
  readonly ledgerReads: Pick<LedgerReads, 'states'>;
  readonly keyring: Keyring;
  readonly runtime: Runtime;
}

const STORE_RETRY = { baseMs: 500, maxMs: 5_000 };
const AT_ONCE = 20;
/** A schedule that another process has put is seen within this. */
const LONGEST_WAIT_MS = 1_000;
const EMPTY_WAIT_MS = 5_000;
/** After an error of one schedule; the others go on. */
const AFTER_ERROR_MS = 60_000;
/** Behind a task that is not over. */
const AFTER_OVERLAP_MS = 1_000;
/** While the ledger does not say whether it is over. */
const AFTER_SILENCE_MS = 5_000;

/** What is done about the due slots of a schedule now. */
interface Plan extends Decision {
  /** It is looked at again after this long, and its slots stay due. */
  readonly waitMs?: number;
  /** Why nothing can be decided now. */
  readonly error?: string;
}

/**
 * Fires the slots of schedules. Any number of processes may do so: each decides by what it has read and by the clock of the
 * database, and the store takes the decision only if the schedule is still as it was read.
 */
export class Scheduler {
  readonly #deps: SchedulerDeps;
  /** In this pass the ledger did not answer: it is not asked for every schedule. */
  #silence: string | null = null;

  constructor(deps: SchedulerDeps) {
    this.#deps = deps;
  }

  async run(signal: AbortSignal): Promise<void> {
    const { runtime } = this.#deps;
    const pace = new RetryPace(runtime, STORE_RETRY, {
      failing: 'the schedules cannot be read; trying again',
      over: 'the schedules can be read again',
    });
    while (!signal.aborted) {
      try {
        const waitMs = await this.look();
        pace.succeeded();
        await sleep(runtime.clock, waitMs, signal);
      } catch (error) {
        if (!isUnavailable(error)) throw error;
        await pace.wait(error, signal);
      }
    }
  }

  /** One pass over what is due; returns how long nothing will be. */
  async look(): Promise<number> {
    const { store, runtime } = this.#deps;
    const due = await store.due(AT_ONCE);
    const { nowMs, dueMs } = await store.clock();
    if (due.length === 0) {
      if (dueMs === null) return EMPTY_WAIT_MS;
      return Math.min(Math.max(dueMs - nowMs, 1), LONGEST_WAIT_MS);
    }
    await runtime.faultPoint('schedule.due');
    this.#silence = null;
    for (const schedule of due) await this.#fire(schedule, nowMs);
    return 0;
  }

  async #fire(schedule: StoredSchedule, nowMs: number): Promise<void> {
    try {
      const definition = openDefinition(schedule, this.#deps.keyring);
      const plan = await this.#decide(schedule, definition, nowMs);
      await this.#advance(schedule, definition, plan, nowMs);
    } catch (error) {
      if (isUnavailable(error)) throw error;
      await this.#note(schedule, error, nowMs);
    }
  }

  async #decide(schedule: StoredSchedule, definition: Definition, nowMs: number): Promise<Plan> {
    const trigger = triggerOf(schedule.name, definition);
    const fromMs = schedule.nextSlotMs ?? nowMs;
    const decision = decide(trigger, definition, fromMs, nowMs);
    const { overlap } = definition;
    if (overlap === 'allow' || decision.slots.length === 0) return decision;
    const { slots, missed } = decision;
    const later = { slots: [], missed: 0, nextSlotMs: fromMs };
    const isOver = schedule.lastTask === null ? true : await this.#isOver(schedule.lastTask);
    if (isOver === null) {
      const error = `whether the last task is over is not known: ${this.#silence}`;
      return { ...later, waitMs: AFTER_SILENCE_MS, error };
    }
    if (overlap === 'wait') {
      const nextSlotMs = slots[1] ?? decision.nextSlotMs;
      return isOver
        ? { slots: slots.slice(0, 1), missed, nextSlotMs }
        : { ...later, waitMs: AFTER_OVERLAP_MS };
    }
    const fired = isOver ? slots.slice(-1) : [];
    return { ...decision, slots: fired, missed: missed + slots.length - fired.length };
  }

  /**
   * Its row is in the outbox until it is over, or until the ledger has it: so an unknown task is one that was forgotten. Null:
   * the ledger does not answer. Schedules that do not ask it fire all the same.
   */
  async #isOver(id: string): Promise<boolean | null> {
    const { outboxReads, ledgerReads } = this.#deps;
    if ((await outboxReads.find(id)) !== null) return false;
    if (this.#silence !== null) return null;
    try {
      const [state = null] = await ledgerReads.states([id]);
      return state === null || !['waiting', 'running', 'refused'].includes(state);
    } catch (error) {
      if (!isUnavailable(error)) throw error;
      this.#silence = textOf(error);
      return null;
    }
  }

  async #advance(
    schedule: StoredSchedule,
    definition: Definition,
    { slots, missed, nextSlotMs, waitMs, error }: Plan,
    nowMs: number,
  ): Promise<void> {
    const { store, keyring, runtime } = this.#deps;
    const { name } = schedule;
    const tasks = slots.map(slotMs =>
      taskOf(definition, { schedule: name, id: slotId(name, slotMs), slotMs, nowMs }, keyring),
    );
    const to = {
      ...schedule,
      version: runtime.random.token(),
      nextSlotMs,
      dueMs: waitMs === undefined ? nextSlotMs : nowMs + waitMs,
      lastSlotMs: slots.at(-1) ?? schedule.lastSlotMs,
      lastTask: tasks.at(-1)?.id ?? schedule.lastTask,
      fired: schedule.fired + slots.length,
      missed: schedule.missed + missed,
      error: error ?? null,
    };
    const answer = await store.change({ name, seen: schedule.version, to, tasks });
    if (answer === 'stale') return;
    await runtime.faultPoint('schedule.committed-not-reported');
    for (const [index, { id }] of tasks.entries()) {
      const slot = new Date(slots[index] ?? 0).toISOString();
      runtime.emit('schedule:fired', { schedule: name, slot, id });
    }
    if (missed > 0) runtime.emit('schedule:missed', { schedule: name, slots: missed });
  }

  /** The others go on; it is tried again later. */
  async #note(schedule: StoredSchedule, error: unknown, nowMs: number): Promise<void> {
    const { store, runtime } = this.#deps;
    const { name } = schedule;
    const message = textOf(error);
    runtime.emit('schedule:failed', { schedule: name, error });
    const version = runtime.random.token();
    const to = { ...schedule, version, error: message, dueMs: nowMs + AFTER_ERROR_MS };
    await store.change({ name, seen: schedule.version, to, tasks: [] });
  }
}

const MOST_ERROR_TEXT = 500;

export const textOf = (error: unknown): string =>
  (error instanceof Error ? error.message : String(error)).slice(0, MOST_ERROR_TEXT);

/** Where tasks are signed, so is what they are made of: a writer without a key must not have us sign for it. */
export function openDefinition(schedule: StoredSchedule, keyring: Keyring): Definition {
  const { name, definition, seal } = schedule;
  const why = keyring.refusalOfSeal(sealed(name, definition), seal ?? undefined);
  if (why === null) return readDefinition(name, definition);
  throw invalid(name, why, 'Put it again from a process that has the signing keys.');
}

/** The name is part of it: a definition must not be used under another one. */
export const sealed = (name: string, definition: string): string =>
  digestOfDefinition(`schedule ${name}\n${definition}`);
