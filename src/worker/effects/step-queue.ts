import { AsyncLocalStorage } from 'node:async_hooks';
import { outlastError } from '../../errors/error.ts';
import type { Clock } from '../../runtime/clock.ts';

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
