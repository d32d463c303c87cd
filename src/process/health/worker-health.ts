import type { Clock } from '../../runtime/runtime.ts';
import type { WorkerStatus } from '../../worker/worker-deps.ts';
import type { Health } from './health-server.ts';

/** A worker whose loop has not turned for this long is stuck. */
const STALL_MS = 30_000;
/** How often a child reports its state. */
export const PULSE_MS = 1_000;

/** A worker that could receive no message for this long is not ready, whatever the state of its connections. */
const DEAF_MS = 10_000;

/**
 * The state of one worker. A broker that is away is no reason to end the worker: it comes back by itself. Nor does a broker
 * that accepts no messages make it unready: it runs tasks, and follow-ups are stored; the figures show it.
 */
export function healthOfWorker(status: WorkerStatus): Health {
  const { idleMs, isOpen, deafMs, running, unsentMs, blockedBy } = status;
  const isConsuming = deafMs !== null && deafMs < DEAF_MS;
  const deafSeconds = deafMs === null ? null : Math.round(deafMs) / 1_000;
  const sending: SendingDetails = {
    follow_ups_unsent_seconds: unsentMs === null ? null : Math.round(unsentMs) / 1_000,
    broker_blocked: blockedBy,
  };
  const idleSeconds = Math.round(idleMs) / 1_000;
  const details = { idle_seconds: idleSeconds, deaf_seconds: deafSeconds, running, ...sending };
  return { alive: idleMs < STALL_MS, ready: isOpen && isConsuming, details };
}

/** Whether follow-ups can be sent. */
interface SendingDetails {
  /** Since when they cannot; a resurrector sends them. */
  readonly follow_ups_unsent_seconds: number | null;
  readonly broker_blocked: string | null;
}

/** The worst of the children's reports. */
function sendingOf(children: readonly Pulse[]): SendingDetails {
  const all = children.map(({ health }) => health.details as Partial<SendingDetails>);
  const seconds = all.flatMap(details => details.follow_ups_unsent_seconds ?? []);
  return {
    follow_ups_unsent_seconds: seconds.length === 0 ? null : Math.max(...seconds),
    broker_blocked: all.find(details => details.broker_blocked)?.broker_blocked ?? null,
  };
}

interface Pulse {
  readonly at: number;
  readonly health: Health;
}

/**
 * The state of a supervisor, from the last reports of its children. A child that is starting has not reported yet, and one
 * that is gone is being replaced: neither is a reason to end the others. A child whose event loop is blocked is not handled
 * here: its own thread ends it after `maxBlock`.
 */
export class Pulses {
  readonly #clock: Pick<Clock, 'monotonic'>;
  readonly #silenceMs: number;
  readonly #wanted: number;
  readonly #children = new Map<string, Pulse>();
  readonly #loading = new Set<string>();

  constructor(clock: Pick<Clock, 'monotonic'>, wanted: number, maxBlockMs: number) {
    this.#clock = clock;
    this.#wanted = wanted;
    this.#silenceMs = maxBlockMs + STALL_MS;
  }

  record(process: string, health: Health): void {
    this.#children.set(process, { at: this.#clock.monotonic(), health });
  }

  /** It loads its handlers, or has done so. */
  loading(process: string, isLoading: boolean): void {
    if (isLoading) this.#loading.add(process);
    else this.#loading.delete(process);
  }

  gone(process: string): void {
    this.#loading.delete(process);
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
      details: {
        processes: this.#wanted,
        ready_processes: ready,
        loading_processes: this.#loading.size,
        ...sendingOf(children),
      },
    };
  }
}
