import { isOutlastError, isUnavailable, outlastError } from '../../errors/error.ts';
import type { Ledger, RunRef } from '../../ledger/ledger.ts';
import type { Clock, FaultPoint } from '../../runtime/runtime.ts';
import { type DoorRun, type EffectDoor, type Entrance, type Fences, fenceStale } from './door.ts';
import { AsyncLocalStorage } from 'node:async_hooks';

/** Conflicts start the transaction over: common enough to expect, rare enough that retries end. */
const MAX_STARTS = 10;

export interface EffectOnceParts<Tx> {
  readonly fences: Fences<Tx>;
  /** The ledger, if it is not the database of the fences. Null: the task row itself is the fence. */
  readonly ledger: Pick<Ledger, 'raiseEpoch'> | null;
  readonly faultPoint: FaultPoint;
}

/** Another run holds the fence, with an epoch that is not below ours. */
class HigherFence extends Error {
  readonly epoch: number;

  constructor(epoch: number) {
    super('the fence stands higher');
    this.epoch = epoch;
  }
}

/**
 * The door, on the fences of any database.
 *
 * Where the ledger is a separate store, two things keep an effect from happening twice. A run that passes holds the lock of
 * the fence until COMMIT, so of two runs the later one finds the step of the earlier one. And the ledger is asked under that
 * lock: a run that has lost its task meanwhile goes no further, whether or not the next run has been here.
 */
export class EffectOnceDoor<Tx> implements EffectDoor<Tx> {
  readonly locksTask: boolean;
  readonly #fences: Fences<Tx>;
  readonly #ledger: Pick<Ledger, 'raiseEpoch'> | null;
  readonly #faultPoint: FaultPoint;

  constructor({ fences, ledger, faultPoint }: EffectOnceParts<Tx>) {
    this.locksTask = ledger === null;
    this.#fences = fences;
    this.#ledger = ledger;
    this.#faultPoint = faultPoint;
  }

  async pass(
    run: DoorRun,
    step: string,
    fn: (tx: Tx) => Promise<Uint8Array | null>,
  ): Promise<Uint8Array | null> {
    let own: unknown;
    const effect = async (tx: Tx): Promise<Uint8Array | null> => {
      try {
        return await fn(tx);
      } catch (error) {
        own = error;
        throw error;
      }
    };
    try {
      return await this.#startOver(run, (tx, raised) => this.#inside(tx, raised, step, effect));
    } catch (error) {
      throw error === own ? asThrown(error) : error;
    }
  }

  async fence(run: RunRef): Promise<void> {
    // `begin` has moved the task row, so no earlier run gets past it.
    if (this.#ledger === null) return;
    await this.#startOver(run, async (tx, raised) => {
      await this.#fences.briefly(tx, raised, () => this.#take(tx, raised));
    });
  }

  async #startOver<T>(given: DoorRun, fn: (tx: Tx, run: DoorRun) => Promise<T>): Promise<T> {
    let run = given;
    for (let start = 1; ; start++) {
      try {
        return await this.#fences.transaction(tx => fn(tx, run));
      } catch (error) {
        if (start < MAX_STARTS) {
          if (error instanceof HigherFence) {
            run = await this.#raise(run, error.epoch);
            continue;
          }
          if (this.#fences.isConflict(error)) continue;
        }
        throw this.#fences.asLost(error) ?? error;
      }
    }
  }

  async #inside(
    tx: Tx,
    given: DoorRun,
    step: string,
    fn: (tx: Tx) => Promise<Uint8Array | null>,
  ): Promise<Uint8Array | null> {
    const [found, marked] = await this.#fences.briefly(tx, given, async () => {
      const run = await this.#take(tx, given);
      await this.#faultPoint('door.fenced');
      // This is below the run's own epoch, so nothing is raised: the call only asks who owns the task.
      await this.#raise(run, run.epoch - 1);
      return [await this.#mark(tx, run, step), alone(run)] as const;
    });
    if (!found.isNew) return found.value;
    const value = await fn(tx);
    await this.#fences.confirm?.(tx, marked, step);
    if (value !== null) {
      await this.#fences.keep(tx, marked, step, value);
      const { effect } = found;
      if (effect !== undefined) await this.#fences.keep(tx, { ...marked, effect }, step, value);
    }
    await this.#faultPoint('door.effect-not-committed');
    return value;
  }

  /**
   * Marks the step for the task first: what a task has done stays done, even if the key store has forgotten the key.
   * What another task of the key has done is recorded for this task as well.
   */
  async #mark(tx: Tx, run: DoorRun, step: string): Promise<Entrance> {
    const own = await this.#fences.mark(tx, alone(run), step);
    if (!own.isNew || run.effect === undefined) return own;
    const shared = await this.#fences.mark(tx, run, step);
    if (!shared.isNew && shared.value !== null)
      await this.#fences.keep(tx, alone(run), step, shared.value);
    return shared;
  }

  /** Another door of this same run may have raised the epoch already: then the run holds the fence under that epoch. */
  async #take(tx: Tx, run: DoorRun): Promise<DoorRun> {
    const holder = await this.#fences.take(tx, run);
    if (holder.run !== run.run) throw new HigherFence(holder.epoch);
    return { ...run, epoch: holder.epoch };
  }

  /** Raises the epoch of the rightful run only: the ledger compares and raises in one step. */
  async #raise(run: DoorRun, above: number): Promise<DoorRun> {
    if (this.#ledger === null) return run;
    const reply = await this.#ledger.raiseEpoch(run, above);
    if (reply.status !== 'ok') throw fenceStale(run);
    return { ...run, epoch: reply.epoch };
  }
}

/** The run without its key: its steps belong to its task only. */
function alone({ id, epoch, run }: DoorRun): DoorRun {
  return { id, epoch, run };
}

/**
 * An error of the effect is the effect's own, however our connections classify it: a query that takes too long or a
 * lock timeout is a failed attempt, not a store that is away.
 */
function asThrown(error: unknown): unknown {
  return isOutlastError(error) && isUnavailable(error) ? (error.cause ?? error) : error;
}

/**
 * How long a call waits for the one before it. No sane transaction stays open that long next to another call of its own
 * handler; one that waits for that very call never ends by itself.
 */
const LONGEST_WAIT_MS = 120_000;

interface OpenStep {
  readonly queue: StepQueue;
  readonly step: string;
  isOpen: boolean;
}

interface Waiter {
  readonly call: string;
  readonly resolve: () => void;
  readonly reject: (error: Error) => void;
}

const openSteps = new AsyncLocalStorage<OpenStep>();

/**
 * The calls of one run that need its fence: `ctx.transaction`, `ctx.send` and, where the task's own row is the fence,
 * `ctx.checkpoint`. They run one at a time. In the database the second would wait for a lock that the first may hold
 * longer than the lock timeout: the task would be released and run again, forever.
 */
export class StepQueue {
  readonly #clock: Clock;
  readonly #waiting: Waiter[] = [];
  /** The call in progress, as shown in error messages. */
  #current: string | null = null;

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** Runs `fn` after every earlier call has ended. */
  async inTurn<T>(call: string, fn: () => Promise<T>): Promise<T> {
    this.refuseInside(call);
    if (this.#current === null) this.#current = call;
    else await this.#turn(call);
    try {
      return await fn();
    } finally {
      const next = this.#waiting.shift();
      this.#current = next?.call ?? null;
      next?.resolve();
    }
  }

  #turn(call: string): Promise<void> {
    return new Promise((resolve, reject) => {
      const cancel = this.#clock.timer(LONGEST_WAIT_MS, () => {
        this.#waiting.splice(this.#waiting.indexOf(waiter), 1);
        reject(blocked(call, this.#current ?? 'another call'));
      });
      const waiter: Waiter = {
        call,
        resolve: () => {
          cancel();
          resolve();
        },
        reject: error => {
          cancel();
          reject(error);
        },
      };
      this.#waiting.push(waiter);
    });
  }

  /** The run is over: calls that still wait for their turn are rejected. */
  close(error: Error): void {
    for (const waiter of this.#waiting.splice(0)) waiter.reject(error);
  }

  /** Runs a function inside the transaction of a step; the async context of the function records that. */
  async inside<T>(step: string, fn: () => Promise<T>): Promise<T> {
    const open = { queue: this, step, isOpen: true };
    try {
      return await openSteps.run(open, fn);
    } finally {
      // Promises that it did not await may still be running.
      open.isOpen = false;
    }
  }

  /** A call inside an open step would wait for the end of that step, and so for itself. */
  refuseInside(call: string): void {
    const open = openSteps.getStore();
    if (open === undefined || open.queue !== this || !open.isOpen) return;
    throw outlastError('ERR_STEP_NESTED', {
      message: `${call} was called inside the ctx.transaction of the step ${open.step}`,
      hint: 'Call it before or after. Inside, send with outlast.send(tx, …), and let the value of the step say how far it came.',
      fields: { step: open.step },
    });
  }
}

function blocked(call: string, current: string): Error {
  return outlastError('ERR_STEP_BLOCKED', {
    message: `${call} waited ${LONGEST_WAIT_MS / 1000} s for ${current} of the same run`,
    hint: 'A transaction that waits for a call which was started outside of it waits for itself: start that call after it. Keep long work outside of transactions.',
    fields: { call, waitedMs: LONGEST_WAIT_MS },
  });
}
