import { outlastError } from '../../errors/error.ts';
import type { RunRef } from '../../ledger/ledger.ts';
import { decodeJson, encodeJson } from '../../task/json.ts';
import type { MemoryLedger } from './memory-ledger.ts';
import type { TaskRecord } from './memory-record.ts';
import { MemoryTransaction } from './memory-transaction.ts';

/** The two looks at the fence. The second one is in the same step as the effect; a mutant leaves it out. */
export interface EffectGuards {
  mayEnter(record: TaskRecord | undefined, ref: RunRef): boolean;
  mayApply(record: TaskRecord | undefined, ref: RunRef, isStepDone: boolean): boolean;
}

function isOwned(record: TaskRecord | undefined, ref: RunRef): boolean {
  return record?.state === 'running' && record.epoch === ref.epoch && record.run === ref.run;
}

export const EFFECT_GUARDS: EffectGuards = Object.freeze({
  mayEnter: isOwned,
  mayApply: (record, ref, isStepDone) => isOwned(record, ref) && !isStepDone,
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
}

/**
 * The effect-once door where ledger and effects are one database: the task's record is its fence row. Instead of
 * locking the row while `fn` runs, as SQL does, the fence is compared again in the step that commits; from outside both
 * look the same. A step done before gives its stored value and `fn` does not run.
 */
export class MemoryEffects {
  readonly #ledger: MemoryLedger;
  readonly #guards: EffectGuards;
  readonly #journal: (entry: EffectEntry) => void;

  constructor(ledger: MemoryLedger, options: MemoryEffectsOptions = {}) {
    this.#ledger = ledger;
    this.#guards = { ...EFFECT_GUARDS, ...options.guards };
    this.#journal = options.journal ?? (() => undefined);
  }

  async transaction<T>(ref: RunRef, step: string, fn: (tx: MemoryTransaction) => T | Promise<T>): Promise<T> {
    const { records } = this.#ledger.state;
    if (!this.#guards.mayEnter(records.get(ref.id), ref)) throw fenceStale(ref);
    const done = this.#steps(ref.id).get(step);
    if (done !== undefined) return decodeValue(done.value) as T;
    const tx = new MemoryTransaction();
    let value: T;
    try {
      value = await fn(tx);
    } catch (error) {
      tx.rollback();
      throw error;
    }
    this.#commit(ref, step, tx, encodeValue(value));
    return value;
  }

  /** Fence, step and effect: one synchronous step. */
  #commit(ref: RunRef, step: string, tx: MemoryTransaction, value: string | undefined): void {
    const record = this.#ledger.state.records.get(ref.id);
    const steps = this.#steps(ref.id);
    if (!this.#guards.mayApply(record, ref, steps.has(step))) {
      tx.rollback();
      throw fenceStale(ref);
    }
    steps.set(step, { epoch: ref.epoch, value });
    this.#ledger.state.steps.set(ref.id, steps);
    tx.commit();
    this.#journal({ id: ref.id, step, epoch: ref.epoch });
  }

  #steps(id: string): Map<string, { readonly epoch: number; readonly value: string | undefined }> {
    return this.#ledger.state.steps.get(id) ?? new Map();
  }
}

const encodeValue = (value: unknown): string | undefined =>
  value === undefined ? undefined : encodeJson(value);

const decodeValue = (value: string | undefined): unknown =>
  value === undefined ? undefined : decodeJson(value);

function fenceStale(ref: RunRef): Error {
  return outlastError('ERR_FENCE_STALE', {
    message: `another run owns task ${ref.id}, so this one may not take effect`,
    hint: 'Stop and write nothing: the rightful run does the work.',
    fields: { id: ref.id, epoch: ref.epoch },
  });
}
