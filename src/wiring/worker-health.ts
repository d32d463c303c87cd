import type { Clock } from '../runtime/clock.ts';
import type { WorkerStatus } from '../worker/worker-deps.ts';
import type { Health } from './health.ts';

/** A worker whose loop has not turned for this long hangs in something that will not end. */
const PATIENCE_MS = 30_000;
/** A child says this often how it is. */
export const PULSE_MS = 1_000;

/** A worker to which no message could come for this long is not ready, whatever its connections say. */
const DEAF_MS = 10_000;

/** How one worker is. A broker that is away is no reason to end it: it comes back by itself. */
export function healthOfWorker({ idleMs, isOpen, deafMs, running }: WorkerStatus): Health {
  const isConsuming = deafMs !== null && deafMs < DEAF_MS;
  const deafSeconds = deafMs === null ? null : Math.round(deafMs) / 1_000;
  const details = { idle_seconds: Math.round(idleMs) / 1_000, deaf_seconds: deafSeconds, running };
  return { alive: idleMs < PATIENCE_MS, ready: isOpen && isConsuming, details };
}

interface Pulse {
  readonly at: number;
  readonly health: Health;
}

/**
 * How a supervisor is, by what its children said last. One that is starting says nothing yet, and one that is gone is being
 * replaced: neither is a reason to end the others. A child whose event loop stands still is not our business: its own
 * thread ends it after `maxBlock`.
 */
export class Pulses {
  readonly #clock: Pick<Clock, 'monotonic'>;
  readonly #silenceMs: number;
  readonly #wanted: number;
  readonly #children = new Map<string, Pulse>();

  constructor(clock: Pick<Clock, 'monotonic'>, wanted: number, maxBlockMs: number) {
    this.#clock = clock;
    this.#wanted = wanted;
    this.#silenceMs = maxBlockMs + PATIENCE_MS;
  }

  hear(process: string, health: Health): void {
    this.#children.set(process, { at: this.#clock.monotonic(), health });
  }

  gone(process: string): void {
    this.#children.delete(process);
  }

  look(): Health {
    const children = [...this.#children.values()];
    const now = this.#clock.monotonic();
    const isSilent = ({ at }: Pulse): boolean => now - at > this.#silenceMs;
    const ready = children.filter(pulse => pulse.health.ready && !isSilent(pulse)).length;
    return {
      alive: children.every(pulse => pulse.health.alive && !isSilent(pulse)),
      ready: ready >= this.#wanted,
      details: { processes: this.#wanted, ready_processes: ready },
    };
  }
}
