import type { ScheduleSpec } from '../config/schedule.ts';
import { isUnavailable } from '../errors/error.ts';
import { type Runtime, sleep } from '../runtime/runtime.ts';
import type { ScheduleStore } from './schedule-store.ts';
import { textOf } from './scheduler.ts';
import type { Prepared, ScheduleOperations } from './schedules.ts';

/** How long a schedule of a configuration counts after a process has vouched for it, and how often one does so. */
const DECLARED_MS = 60_000;
const EVERY_MS = 15_000;
const FORGOTTEN_MS = 7 * 86_400_000;

export interface DeclarerDeps {
  readonly store: ScheduleStore;
  readonly operations: ScheduleOperations;
  readonly runtime: Runtime;
  readonly specs: readonly ScheduleSpec[];
}

/**
 * Keeps the schedules of a configuration while its process runs. One that no running process has stops firing and keeps its
 * next slot, for a process that brings it back. Where two running configurations differ, the one that was started last counts.
 */
export class Declarer {
  readonly #deps: DeclarerDeps;
  #prepared: readonly Prepared[] | null = null;
  readonly #put = new Set<string>();

  constructor(deps: DeclarerDeps) {
    this.#deps = deps;
  }

  async run(signal: AbortSignal): Promise<void> {
    const { runtime } = this.#deps;
    while (!signal.aborted) {
      try {
        await this.look();
      } catch (error) {
        if (!isUnavailable(error)) throw error;
        runtime.log.warn({ error }, 'the schedules of the configuration cannot be stored now');
      }
      await sleep(runtime.clock, EVERY_MS, signal);
    }
  }

  /** Puts what is new or changed, and vouches for the rest. */
  async look(): Promise<void> {
    const { store } = this.#deps;
    const prepared = (this.#prepared ??= await this.#prepare());
    const stored = new Set(await store.declare(prepared, DECLARED_MS, EVERY_MS));
    for (const one of prepared) {
      if (stored.has(one.name)) this.#put.add(one.name);
      else await this.#place(one);
    }
    await store.prune(FORGOTTEN_MS);
  }

  /** A definition that cannot be used stops none of the others. */
  async #prepare(): Promise<readonly Prepared[]> {
    const { specs, operations } = this.#deps;
    const prepared: Prepared[] = [];
    for (const spec of specs) {
      try {
        prepared.push(await operations.prepare(spec));
      } catch (error) {
        if (isUnavailable(error)) throw error;
        await this.#report(spec.name, error);
      }
    }
    return prepared;
  }

  /** At the start ours counts; later another process has put another one, which counts while that process runs. */
  async #place(one: Prepared): Promise<void> {
    const { store, operations, runtime } = this.#deps;
    const old = await store.read(one.name);
    const { nowMs } = await store.clock();
    const isHeld = old !== null && (old.declaredUntilMs ?? Infinity) > nowMs;
    if (this.#put.has(one.name) && isHeld) {
      const message = 'another process has this schedule otherwise in its configuration';
      runtime.log.warn({ schedule: one.name }, message);
      await operations.noteDispute(one.name, 2 * EVERY_MS);
      return;
    }
    try {
      await operations.put(one, { origin: 'config', ttlMs: DECLARED_MS });
      this.#put.add(one.name);
    } catch (error) {
      if (isUnavailable(error)) throw error;
      await this.#report(one.name, error);
    }
  }

  async #report(name: string, error: unknown): Promise<void> {
    const { operations, runtime } = this.#deps;
    runtime.emit('schedule:failed', { schedule: name, error });
    runtime.log.error({ schedule: name, error }, 'a schedule of the configuration cannot be used');
    await operations.noteError(name, textOf(error));
  }
}
