import { isOutlastError, isUnavailable } from '../errors/error.ts';
import type { Ledger, RunRef } from '../ledger/ledger.ts';
import type { FaultPoint } from '../runtime/fault-point.ts';
import { fenceStale, type DoorRun, type EffectDoor, type Entrance, type Fences } from './door.ts';

/** Conflicts start over; they are common enough to expect and rare enough to end. */
const MAX_STARTS = 10;

export interface EffectOnceParts<Tx> {
  readonly fences: Fences<Tx>;
  /** The ledger, where it is not the database of the fences. Null: the task row itself is the fence. */
  readonly ledger: Pick<Ledger, 'lift'> | null;
  readonly faultPoint: FaultPoint;
}

/** The fence is another run's, and not below ours. */
class HigherFence extends Error {
  readonly epoch: number;

  constructor(epoch: number) {
    super('the fence stands higher');
    this.epoch = epoch;
  }
}

/**
 * The door on fences of whatever database.
 *
 * Where the ledger is elsewhere two things keep an effect from happening twice. Whoever passes holds the lock of the fence
 * until COMMIT, so of two runs the later one finds the step of the earlier one. And the ledger is asked under that lock:
 * a run that has lost its task meanwhile goes no further, whether or not the next one has been here.
 */
export class EffectOnceDoor<Tx> implements EffectDoor<Tx> {
  readonly #fences: Fences<Tx>;
  readonly #ledger: Pick<Ledger, 'lift'> | null;
  readonly #faultPoint: FaultPoint;

  constructor({ fences, ledger, faultPoint }: EffectOnceParts<Tx>) {
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
      return await this.#startOver(run, (tx, lifted) => this.#inside(tx, lifted, step, effect));
    } catch (error) {
      throw error === own ? asThrown(error) : error;
    }
  }

  async fence(run: RunRef): Promise<void> {
    // `begin` has moved the task row, and no earlier run gets past it.
    if (this.#ledger === null) return;
    await this.#startOver(run, async (tx, lifted) => {
      await this.#fences.briefly(tx, lifted, () => this.#take(tx, lifted));
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
            run = await this.#lift(run, error.epoch);
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
      // Below its own epoch nothing is lifted: this only asks whose the task is.
      await this.#lift(run, run.epoch - 1);
      return [await this.#mark(tx, run, step), alone(run)] as const;
    });
    if (!found.isNew) return found.value;
    const value = await fn(tx);
    await this.#fences.confirm?.(tx, marked, step);
    if (value !== null) {
      await this.#fences.keep(tx, alone(given), step, value);
      if (given.effect !== undefined) await this.#fences.keep(tx, given, step, value);
    }
    await this.#faultPoint('door.effect-not-committed');
    return value;
  }

  /**
   * For the task first: what a task has done stays done, also when the store of the keys has forgotten under which one.
   * What another task of the key has done is kept for this one as well.
   */
  async #mark(tx: Tx, run: DoorRun, step: string): Promise<Entrance> {
    const own = await this.#fences.mark(tx, alone(run), step);
    if (!own.isNew || run.effect === undefined) return own;
    const shared = await this.#fences.mark(tx, run, step);
    if (!shared.isNew && shared.value !== null)
      await this.#fences.keep(tx, alone(run), step, shared.value);
    return shared;
  }

  /** Another door of this very run may have been lifted already: then the fence is its own, under that epoch. */
  async #take(tx: Tx, run: DoorRun): Promise<DoorRun> {
    const holder = await this.#fences.take(tx, run);
    if (holder.run !== run.run) throw new HigherFence(holder.epoch);
    return { ...run, epoch: holder.epoch };
  }

  /** Only the rightful run is lifted: the ledger compares and raises in one step. */
  async #lift(run: DoorRun, above: number): Promise<DoorRun> {
    if (this.#ledger === null) return run;
    const reply = await this.#ledger.lift(run, above);
    if (reply.status !== 'ok') throw fenceStale(run);
    return { ...run, epoch: reply.epoch };
  }
}

/** The run as one whose steps belong to its task only. */
function alone({ id, epoch, run }: DoorRun): DoorRun {
  return { id, epoch, run };
}

/**
 * An error of the effect is the effect's own, whatever our connections make of it: a query that takes too long or a
 * lock that does not come is a failed attempt, not a store that is away.
 */
function asThrown(error: unknown): unknown {
  return isOutlastError(error) && isUnavailable(error) ? (error.cause ?? error) : error;
}
