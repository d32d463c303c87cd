import { outlastError } from '../../errors/error.ts';
import type { RunRef } from '../../ledger/ledger.ts';
import { noFaults, type FaultPoint } from '../../runtime/runtime.ts';
import {
  effectKeyOf,
  type DoorRun,
  type EffectDoor,
  type Entrance,
} from '../../worker/effects/door.ts';
import type { MemoryLedger } from './memory-ledger.ts';
import type { TaskRecord } from './memory-record.ts';
import { MemoryTransaction } from './memory-transaction.ts';

/** The two checks of the fence. The second one is in the same step as the effect; a mutant leaves it out. */
export interface EffectGuards {
  mayEnter(record: TaskRecord | undefined, run: RunRef): boolean;
  mayApply(record: TaskRecord | undefined, run: RunRef, isStepDone: boolean): boolean;
}

function isOwned(record: TaskRecord | undefined, run: RunRef): boolean {
  return record?.state === 'running' && record.epoch === run.epoch && record.run === run.run;
}

export const EFFECT_GUARDS: EffectGuards = Object.freeze({
  mayEnter: isOwned,
  mayApply: (record, run, isStepDone) => isOwned(record, run) && !isStepDone,
} satisfies EffectGuards);

/** An effect that went through the door, in the order of the store. */
export interface EffectEntry {
  readonly id: string;
  readonly step: string;
  readonly epoch: number;
}

export interface MemoryEffectsOptions {
  readonly guards?: Partial<EffectGuards>;
  readonly journal?: (entry: EffectEntry) => void;
  readonly faultPoint?: FaultPoint;
}

/**
 * The effect-once door where ledger and effects are one database: the task's record is its fence row. Instead of
 * locking the row while `fn` runs, as SQL does, the fence is compared again in the step that commits; from outside both
 * look the same.
 */
export class MemoryEffects implements EffectDoor<MemoryTransaction> {
  readonly locksTask = false;
  readonly #ledger: MemoryLedger;
  readonly #guards: EffectGuards;
  readonly #journal: (entry: EffectEntry) => void;
  readonly #faultPoint: FaultPoint;
  /** The origin under which the effects of a key are kept, and until when. */
  readonly #origins = new Map<string, { readonly origin: string; readonly endsMs: number }>();

  constructor(ledger: MemoryLedger, options: MemoryEffectsOptions = {}) {
    this.#ledger = ledger;
    this.#guards = { ...EFFECT_GUARDS, ...options.guards };
    this.#journal = options.journal ?? (() => undefined);
    this.#faultPoint = options.faultPoint ?? noFaults;
  }

  /** `begin` has moved the record, so no earlier run gets past it. */
  async fence(): Promise<void> {}

  async pass(
    run: DoorRun,
    step: string,
    fn: (tx: MemoryTransaction) => Promise<Uint8Array | null>,
  ): Promise<Uint8Array | null> {
    const found = this.enter(run, step);
    await this.#faultPoint('door.fenced');
    if (!found.isNew) return found.value;
    const tx = new MemoryTransaction();
    const value = await fn(tx);
    await this.#faultPoint('door.effect-not-committed');
    if (run.effect !== undefined) {
      // Where SQL waits for another task of the key, this one finds out afterwards that it was second.
      const meanwhile = this.enter(run, step);
      if (!meanwhile.isNew) {
        tx.rollback();
        return meanwhile.value;
      }
    }
    this.commit(run, step, { tx, value });
    return value;
  }

  /** Checks the fence and looks for the step. Throws `ERR_FENCE_STALE` when another epoch owns the task. */
  enter(run: DoorRun, step: string): Entrance {
    if (!this.#guards.mayEnter(this.#ledger.state.records.get(run.id), run)) throw fenceStale(run);
    const { steps } = this.#ledger.state;
    const done = steps.get(run.id)?.get(step) ?? steps.get(this.#keyOf(run))?.get(step);
    if (done !== undefined) this.#keep(run.id, step, done.value);
    return done === undefined ? { isNew: true } : { isNew: false, value: done.value };
  }

  /** Fence, step and effect: one synchronous step. */
  commit(
    run: DoorRun,
    step: string,
    effect: { readonly tx: MemoryTransaction; readonly value: Uint8Array | null },
  ): void {
    const { records, steps } = this.#ledger.state;
    const keys = [run.id, this.#keyOf(run)];
    const isDone = keys.some(key => steps.get(key)?.has(step) === true);
    if (!this.#guards.mayApply(records.get(run.id), run, isDone)) {
      effect.tx.rollback();
      throw fenceStale(run);
    }
    for (const key of keys) this.#keep(key, step, effect.value);
    this.#remember(run);
    effect.tx.commit();
    this.#journal({ id: run.id, step, epoch: run.epoch });
  }

  /** Under the origin remembered here, or else the given one. */
  #keyOf(run: DoorRun): string {
    const { effect } = run;
    const known = effect && this.#origins.get(effect.key);
    if (!known || known.endsMs <= this.#ledger.state.nowMs) return effectKeyOf(run);
    return effectKeyOf({ ...run, effect: { ...effect, origin: known.origin } });
  }

  #remember({ effect }: DoorRun): void {
    if (effect === undefined) return;
    const { nowMs } = this.#ledger.state;
    const known = this.#origins.get(effect.key);
    const origin = known && known.endsMs > nowMs ? known.origin : effect.origin;
    this.#origins.set(effect.key, { origin, endsMs: nowMs + effect.ttlMs });
  }

  #keep(key: string, step: string, value: Uint8Array | null): void {
    const { steps } = this.#ledger.state;
    const done = steps.get(key) ?? new Map<string, { readonly value: Uint8Array | null }>();
    steps.set(key, done.set(step, { value }));
  }
}

function fenceStale(run: RunRef): Error {
  return outlastError('ERR_FENCE_STALE', {
    message: `another run owns task ${run.id}, so this one may not take effect`,
    hint: 'Stop and write nothing: the rightful run does the work.',
    fields: { id: run.id, epoch: run.epoch },
  });
}
