import type { Reservation } from '../../admission/admission-store.ts';
import { type Limit, type LimitBook, subjectOf } from '../../admission/limits.ts';
import type { Entry, Refused, Reservations } from '../../admission/reservations.ts';
import { isUnavailable } from '../../errors/error.ts';
import type { BegunTask } from '../../ledger/ledger.ts';
import type { Clock, Runtime } from '../../runtime/runtime.ts';
import { MARKS, hasMark } from '../../task/marks.ts';
import type { Handler } from '../handler.ts';
import { type Settlement, wanting } from './settlement.ts';

export interface GateDeps {
  readonly reservations: Reservations;
  readonly book: LimitBook;
  readonly handlers: ReadonlyMap<string, Handler>;
  readonly runtime: Runtime;
}

/** A settlement: the limits could not be looked up. */
type GateEntry = Entry | Settlement;

/** Lets a run start if the limits of its task allow it, and postpones it if not. */
export class Gate {
  readonly #deps: GateDeps;

  constructor(deps: GateDeps) {
    this.#deps = deps;
  }

  /** Null: no limit applies to the task. No promise if no store has to be asked. */
  enter(task: BegunTask): Promise<GateEntry> | null {
    const { book, handlers } = this.#deps;
    const { envelope } = task;
    const contract = handlers.get(envelope.name)?.task.contract;
    // Most tasks are under no limit, and most options need not be read to see it.
    const isFree =
      !book.limitsRuns && !contract?.admission && !hasMark(envelope.options, MARKS.admission);
    if (isFree) return null;
    const limits = book
      .of(subjectOf(envelope, contract))
      .filter(({ concurrency }) => concurrency !== null);
    return limits.length === 0 ? null : this.#ask(task, limits);
  }

  async #ask(task: BegunTask, limits: readonly Limit[]): Promise<GateEntry> {
    const { reservations, runtime } = this.#deps;
    try {
      const entry = await reservations.enter(task, limits);
      if (entry.isIn) {
        const { id, name, queue } = task.envelope;
        const keys = limits.map(({ key }) => key);
        runtime.emit('admission:admitted', { id, name, queue, where: 'worker', keys });
        await runtime.faultPoint('worker.admitted-not-run');
      } else this.#emitRejected(task, entry);
      return entry;
    } catch (error) {
      if (!isUnavailable(error)) throw error;
      return wanting('limits', error);
    }
  }

  /** For a task that was refused and given back. */
  async wait({ id }: BegunTask, refused: Refused): Promise<void> {
    await this.#deps.reservations.wait(id, refused);
  }

  leave(reservations: readonly Reservation[]): void {
    this.#deps.reservations.leave(reservations);
  }

  #emitRejected({ envelope }: BegunTask, entry: Refused): void {
    const { id, name, queue } = envelope;
    const { key, retryAfterMs } = entry;
    const event = { id, name, queue, where: 'worker', key, retryAfterMs } as const;
    this.#deps.runtime.emit('admission:rejected', event);
  }
}

/**
 * Whether the task has expired since then, a moment of the monotonic clock, while it waited here for a slot: it must
 * not start, and `begin` ends and counts it when it is given back. A task that was too late by our clock when it came does
 * not count here: the store has checked its own clock, and the two may differ.
 */
export function hasExpired(
  { envelope: { expiresMs } }: BegunTask,
  sinceMs: number,
  clock: Clock,
): boolean {
  if (expiresMs === null) return false;
  const lateMs = clock.now() - expiresMs;
  return lateMs >= 0 && lateMs < clock.monotonic() - sinceMs;
}
