import type { EventSink } from '../telemetry/events.ts';
import type { Logger } from '../telemetry/logger.ts';
import type { Traces } from '../telemetry/traces.ts';
import { randomBytes, randomUUID } from 'node:crypto';

/** Everything a long-lived part may use of the outside world, besides its ports. */
export interface Runtime {
  readonly clock: Clock;
  readonly random: Random;
  readonly faultPoint: FaultPoint;
  readonly log: Logger;
  readonly emit: EventSink;
  /** Left out: nothing is traced. */
  readonly traces?: Traces;
}

/**
 * The only source of time in the core. Production uses `systemClock`; the simulator drives a
 * virtual one, so no test has to sleep. This clock never decides whether a lease is over: only
 * the store's does.
 */
export interface Clock {
  /** Wall time in milliseconds since the epoch. For people and for `eta`, never for safety. */
  now(): number;
  /** A clock that never jumps, in milliseconds. For deadlines of this process. */
  monotonic(): number;
  /** Calls `fn` after `ms`; the returned function cancels it. */
  timer(ms: number, fn: () => void): () => void;
}

/** Resolves after `ms`, or at once when the signal aborts. It never rejects: callers check the signal. */
export function sleep(clock: Clock, ms: number, signal?: AbortSignal): Promise<void> {
  return new Promise(resolve => {
    if (signal?.aborted) return resolve();
    const done = (): void => {
      cancel();
      signal?.removeEventListener('abort', done);
      resolve();
    };
    const cancel = clock.timer(ms, done);
    signal?.addEventListener('abort', done, { once: true });
  });
}

/** Node's `setTimeout` fires at once for anything longer than this. */
const LONGEST_TIMER_MS = 2_147_483_647;

export const systemClock: Clock = {
  now: () => Date.now(),
  // Not performance.now(): that starts anew in every thread, and the heartbeat thread sends its times to this one.
  monotonic: () => Number(process.hrtime.bigint()) / 1_000_000,
  timer: (ms, fn) => {
    const handle = setTimeout(fn, Math.min(Math.max(ms, 0), LONGEST_TIMER_MS));
    return () => clearTimeout(handle);
  },
};

/** The only source of randomness in the core, so that a seed replays a whole run. */
export interface Random {
  /** A number in [0, 1). */
  next(): number;
  /** A unique identifier: tokens, runs, incarnations. */
  token(): string;
}

const TOKEN_BYTES = 12;
const DRAWN_BYTES = TOKEN_BYTES * 256;
let drawn = Buffer.alloc(0);
let used = 0;

/** Drawn in advance by the hundred: one call each would cost more than the rest of a begin. */
function token(): string {
  if (used === drawn.length) {
    drawn = randomBytes(DRAWN_BYTES);
    used = 0;
  }
  used += TOKEN_BYTES;
  return drawn.toString('hex', used - TOKEN_BYTES, used);
}

export const systemRandom: Random = { next: () => Math.random(), token };

/** The range of the last four hexadecimal digits of the time: about a minute. */
const MINUTE_MS = 65_536;
let writtenMinute = -1;
let minuteText = '';

/**
 * A UUID of version 7: sorts by time, so that the primary-key index of a busy table grows at one end.
 * Task ids are made here; Celery takes any text as an id.
 */
export function uuidv7(nowMs: number): string {
  const ms = Math.floor(nowMs);
  const minute = Math.floor(ms / MINUTE_MS);
  // Only small integers convert fast to another base; the rest of the time changes once a minute.
  if (minute !== writtenMinute) {
    writtenMinute = minute;
    minuteText = minute.toString(16).padStart(8, '0');
  }
  const rest = (ms - minute * MINUTE_MS).toString(16).padStart(4, '0');
  // The random bits of a version 4, which Node draws in advance by the hundred; variant bits included.
  return `${minuteText}-${rest}-7${randomUUID().slice(15)}`;
}

/** When a task was created, by the clock of its sender; null: its id is no UUID of version 7. */
export function createdMs(id: string): number | null {
  if (id.length !== 36 || id[14] !== '7') return null;
  const ms = Number(`0x${id.slice(0, 8)}${id.slice(9, 13)}`);
  return Number.isNaN(ms) ? null : ms;
}

/**
 * Names every gap between two effects. In production reaching one does nothing. The simulator and the
 * chaos suite stop, kill or delay a process exactly there, and the chaos suite walks the whole list.
 */
export const FAULT_POINTS = [
  'relay.claimed',
  'relay.before-publish',
  'relay.written-not-confirmed',
  'relay.published-not-settled',
  'relay.mid-settle',
  'relay.moved',
  'relay.looked-not-settled',
  'worker.taken-not-begun',
  'worker.admitted-not-run',
  'worker.begun-not-started',
  'worker.checkpoint-kept-not-reported',
  'worker.ran-not-committed',
  'worker.kept-not-committed',
  'worker.committed-not-acked',
  'worker.committed-not-followed',
  'worker.failed-not-reported',
  'worker.ended-not-freed',
  'worker.drain-before-release',
  'ledger.begun-in-part',
  'ledger.committed-in-part',
  'door.fenced',
  'door.effect-not-committed',
  'door.committed-not-reported',
  'chord.reported-not-acked',
  'reaper.closed-not-requeued',
  'reaper.mid-chunk',
  'heartbeat.renewed',
  'refusals.published-not-handed-back',
  'schedule.due',
  'schedule.locked-not-written',
  'schedule.written-not-advanced',
  'schedule.advanced-not-committed',
  'schedule.committed-not-reported',
  'move.messages-in-not-acked',
  'move.tasks-in-not-ended',
  'move.mid-end',
  'move.emptied-not-forgotten',
] as const;

/** The gaps between two effects at which the kit can stop a process. */
export type FaultPointName = (typeof FAULT_POINTS)[number];

/** Reaches a fault point. May suspend the caller for ever: that is what a killed process looks like. */
export type FaultPoint = (name: FaultPointName) => Promise<void> | undefined;

export const noFaults: FaultPoint = () => undefined;

/** Where a test installs its own fault point, before Outlast runs in the process. */
const HOOK: unique symbol = Symbol.for('outlast.fault-point');

/** The fault point of this process: none, unless a test has installed one. The package itself never does. */
export function processFaultPoint(): FaultPoint {
  const { [HOOK]: armed } = globalThis as { [HOOK]?: FaultPoint };
  return armed ?? noFaults;
}

/**
 * A long-lived part: started by the function that returns it, stopped by `stop()`.
 * Stopping drains. It may be called twice, early, or while another stop is under way: all wait for the same end.
 */
export interface Service extends AsyncDisposable {
  /** Resolves when the service has ended as asked; rejects when it broke for good. */
  readonly finished: Promise<void>;
  stop(): Promise<void>;
}

/** Runs `body` until its signal aborts and it returns. Turns one async function into a `Service`. */
export function startService(
  body: (signal: AbortSignal) => Promise<void>,
  outer?: AbortSignal,
): Service {
  const controller = new AbortController();
  const abort = (): void => controller.abort();
  if (outer?.aborted) abort();
  else outer?.addEventListener('abort', abort, { once: true });
  const finished = body(controller.signal).finally(() =>
    outer?.removeEventListener('abort', abort),
  );
  // A caller need not handle `finished`; one that does gets the rejection.
  finished.catch(() => undefined);
  const stop = async (): Promise<void> => {
    abort();
    await finished;
  };
  return { finished, stop, [Symbol.asyncDispose]: stop };
}
