import type { ScheduleSpec } from '../config/schedule.ts';
import { isOutlastError, outlastError } from '../errors/error.ts';
import type { ComposeDeps } from '../outbox/compose.ts';
import { type Random, uuidv7 } from '../runtime/runtime.ts';
import type { Keyring } from '../task/keyring.ts';
import { decide } from './decide.ts';
import {
  type Definition,
  digestOfDefinition,
  hasSameSlots,
  readDefinition,
  writeDefinition,
} from './definition.ts';
import { MAX_SCHEDULES, type ScheduleStore, type StoredSchedule } from './schedule-store.ts';
import { openDefinition, sealed } from './scheduler.ts';
import { composeTemplate, invalid, slotId, taskOf } from './template.ts';
import { triggerOf } from './trigger.ts';

export interface SchedulesDeps {
  readonly store: ScheduleStore;
  readonly keyring: Keyring;
  readonly random: Random;
  readonly compose: Omit<ComposeDeps, 'newId' | 'parent' | 'keyring' | 'nowMs'>;
}

/** How a schedule is kept: those of a configuration for `ttlMs` at a time. */
export type Keeping =
  | { readonly origin: 'api' }
  | { readonly origin: 'config'; readonly ttlMs: number };

/** A definition, ready to be stored. */
export interface Prepared {
  readonly name: string;
  readonly definition: Definition;
  readonly text: string;
  readonly digest: string;
  readonly seal: string | null;
}

/** Of processes that change one schedule at once, each tries this often. */
const TRIES = 20;

/** What people and configurations do with schedules. */
export class ScheduleOperations {
  readonly #deps: SchedulesDeps;

  constructor(deps: SchedulesDeps) {
    this.#deps = deps;
  }

  /** Checks pattern and call, and composes the task once. */
  async prepare({ call, ...timing }: ScheduleSpec): Promise<Prepared> {
    const { compose, keyring } = this.#deps;
    const { name, ...rest } = timing;
    triggerOf(name, rest);
    const { nowMs } = await this.#deps.store.clock();
    const task = await composeTemplate(name, call, { ...compose, nowMs });
    if (task.orderingKey !== null && rest.jitterMs > 0)
      throw invalid(name, 'tasks with an ordering key cannot be spread', 'Leave `jitter` out.');
    const definition = { ...rest, task };
    const text = writeDefinition(name, definition);
    const seal = keyring.seal(sealed(name, text)) ?? null;
    return { name, definition, text, digest: digestOfDefinition(text), seal };
  }

  /**
   * Stores a schedule. Up to now the old definition counts, from now on the new one: due slots of the old one fire first,
   * and where both have the same slots, none is left out and none fires twice.
   */
  async put(prepared: Prepared, keeping: Keeping): Promise<'new' | 'changed' | 'same'> {
    const { name, definition, text, digest, seal } = prepared;
    const { keyring } = this.#deps;
    return await this.#change(name, (old, nowMs) => {
      const first = triggerOf(name, definition).next(nowMs);
      const kept = {
        origin: keeping.origin,
        declaredUntilMs: keeping.origin === 'config' ? nowMs + keeping.ttlMs : null,
        definition: text,
        digest,
        seal,
        error: null,
        disputedUntilMs: null,
      };
      if (old === null)
        return { to: { ...FRESH, ...kept, nextSlotMs: first, dueMs: first }, answer: 'new' };
      if (old.origin !== keeping.origin) throw owned(name, old.origin);
      const isSame = old.digest === digest && (old.seal !== null || seal === null);
      if (isSame && old.error === null) {
        const { declaredUntilMs } = kept;
        return { to: { ...old, declaredUntilMs, disputedUntilMs: null }, answer: 'same' };
      }
      const before = readable(old, keyring);
      if (before === null || old.isPaused || old.nextSlotMs === null)
        return { to: { ...old, ...kept, nextSlotMs: first, dueMs: first }, answer: 'changed' };
      if (hasSameSlots(before, definition))
        return { to: { ...old, ...kept, dueMs: old.nextSlotMs }, answer: 'changed' };
      const { slots, missed } = decide(triggerOf(name, before), before, old.nextSlotMs, nowMs);
      const fired = before.overlap === 'allow' ? slots : [];
      const tasks = fired.map(slotMs =>
        taskOf(before, { schedule: name, id: slotId(name, slotMs), slotMs, nowMs }, keyring),
      );
      const to = {
        ...old,
        ...kept,
        nextSlotMs: first,
        dueMs: first,
        lastSlotMs: fired.at(-1) ?? old.lastSlotMs,
        lastTask: tasks.at(-1)?.id ?? old.lastTask,
        fired: old.fired + fired.length,
        missed: old.missed + missed + slots.length - fired.length,
      };
      return { to, tasks, answer: 'changed' };
    });
  }

  /** False: there was none. One of a configuration is removed there, unless no process has it any more. */
  async remove(name: string): Promise<boolean> {
    return await this.#change<boolean>(name, (old, nowMs) => {
      if (old === null) return { to: 'keep', answer: false };
      if (old.declaredUntilMs !== null && old.declaredUntilMs > nowMs) throw owned(name, 'config');
      return { to: null, answer: true };
    });
  }

  /** False: it was paused already. Slots that pass meanwhile are not made up for. */
  async pause(name: string): Promise<boolean> {
    return await this.#change<boolean>(name, old => {
      const found = known(name, old);
      return { to: { ...found, isPaused: true }, answer: !found.isPaused };
    });
  }

  /** False: it was not paused. It goes on with the next slot from now. */
  async resume(name: string): Promise<boolean> {
    return await this.#change<boolean>(name, (old, nowMs) => {
      const found = known(name, old);
      if (!found.isPaused) return { to: 'keep', answer: false };
      const next = triggerOf(name, readDefinition(name, found.definition)).next(nowMs);
      return {
        to: { ...found, isPaused: false, nextSlotMs: next, dueMs: next },
        answer: true,
      };
    });
  }

  /** Sends its task now, beside its slots; returns the id. */
  async runNow(name: string): Promise<string> {
    const { keyring } = this.#deps;
    return await this.#change<string>(name, (old, nowMs) => {
      const found = known(name, old);
      const id = uuidv7(nowMs);
      const definition = openDefinition(found, keyring);
      const task = taskOf(definition, { schedule: name, id, slotMs: null, nowMs }, keyring);
      return { to: { ...found, lastTask: id }, tasks: [task], answer: id };
    });
  }

  /** Notes that a definition of a configuration cannot be used; the one before it goes on. */
  async noteError(name: string, error: string): Promise<void> {
    await this.#change(name, old => ({
      to: old === null ? 'keep' : { ...old, error },
      answer: null,
    }));
  }

  /** Notes that another running process has it otherwise in its configuration. */
  async noteDispute(name: string, ttlMs: number): Promise<void> {
    await this.#change(name, (old, nowMs) => ({
      to: old === null ? 'keep' : { ...old, disputedUntilMs: nowMs + ttlMs },
      answer: null,
    }));
  }

  async #change<T>(
    name: string,
    step: (old: StoredSchedule | null, nowMs: number) => Step<T>,
  ): Promise<T> {
    const { store, random } = this.#deps;
    for (let attempt = 0; attempt < TRIES; attempt++) {
      // In this order: a slot that fires between the two has a new version, and one that fired before is in the past.
      const old = await store.read(name);
      const { nowMs } = await store.clock();
      const { to, tasks = [], answer } = step(old, nowMs);
      if (to === 'keep') return answer;
      const next = to === null ? null : { ...to, version: random.token() };
      const seen = old?.version ?? null;
      if ((await store.change({ name, seen, to: next, tasks })) === 'ok') return answer;
    }
    throw outlastError('ERR_STORE_UNAVAILABLE', {
      message: `schedule ${name} could not be changed: others change it too, or there are ${MAX_SCHEDULES} already`,
      hint: 'Try again, or remove schedules that are not needed: npx outlast schedule list',
      fields: {},
    });
  }
}

interface Step<T> {
  /** Null: it is deleted. */
  readonly to: Omit<StoredSchedule, 'name' | 'version'> | null | 'keep';
  readonly tasks?: readonly ReturnType<typeof taskOf>[];
  readonly answer: T;
}

const FRESH = {
  isPaused: false,
  lastSlotMs: null,
  lastTask: null,
  fired: 0,
  missed: 0,
} as const;

/** Null: it cannot be read, or was not written by a holder of our keys. */
function readable(schedule: StoredSchedule, keyring: Keyring): Definition | null {
  try {
    const definition = openDefinition(schedule, keyring);
    triggerOf(schedule.name, definition);
    return definition;
  } catch (error) {
    if (isOutlastError(error, 'ERR_SCHEDULE_INVALID')) return null;
    throw error;
  }
}

function known(name: string, schedule: StoredSchedule | null): StoredSchedule {
  if (schedule !== null) return schedule;
  throw outlastError('ERR_SCHEDULE_UNKNOWN', {
    message: `there is no schedule ${name}`,
    hint: 'npx outlast schedule list shows all of them.',
    fields: { schedule: name },
  });
}

function owned(name: string, origin: 'config' | 'api'): Error {
  return outlastError('ERR_SCHEDULE_OWNED', {
    message:
      origin === 'config'
        ? `schedule ${name} belongs to the configuration of a running process`
        : `schedule ${name} was put by a program, and a configuration has one of the same name`,
    hint:
      origin === 'config'
        ? 'Change it there; `outlast schedule pause` stops it until then.'
        : 'Remove it first, or give one of them another name.',
    fields: { schedule: name },
  });
}
