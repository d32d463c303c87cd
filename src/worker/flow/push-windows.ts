import type { Demand, PushedQueue, QueueDemand } from '../../broker/demand.ts';
import type { Clock } from '../../runtime/clock.ts';
import { QueueWindows, type QueueLimits } from './queue-windows.ts';
import { SharedWindows } from './shared-windows.ts';

export interface PushOptions {
  /** Tasks that run at once. */
  readonly concurrency: number;
  /** How many queues are taken from. */
  readonly queues: number;
  /** Until when messages are held: until their run is settled, or until they are begun. */
  readonly ackOn: 'commit' | 'begin';
}

/** How many messages a broker that pushes may push to this process. `Flow` explains the whole. */
export class PushWindows implements Demand {
  readonly #clock: Pick<Clock, 'monotonic' | 'timer'>;
  readonly #limits: QueueLimits;

  constructor(
    clock: Pick<Clock, 'monotonic' | 'timer'>,
    { concurrency, queues, ackOn }: PushOptions,
  ) {
    this.#clock = clock;
    // With `commit` what runs is held too, and any queue may be the only one that has work; with `begin` each has its quota.
    this.#limits =
      ackOn === 'commit'
        ? { limit: concurrency, pool: new SharedWindows(concurrency) }
        : { limit: Math.ceil(concurrency / Math.max(1, queues)), pool: null };
  }

  join(queue: PushedQueue, isAlone: boolean): QueueDemand {
    const limits = isAlone ? { ...this.#limits, pool: null } : this.#limits;
    return new QueueWindows(queue, this.#clock, limits);
  }
}
