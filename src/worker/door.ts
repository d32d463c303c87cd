import { createHash } from 'node:crypto';
import { outlastError } from '../errors/error.ts';
import type { Ledger, RunRef } from '../ledger/ledger.ts';
import type { FaultPoint } from '../runtime/fault-point.ts';
import type { Task } from '../task/define-task.ts';
import type { SendOptions } from '../task/define-task.ts';

/**
 * The effect-once door. In one transaction of the user's database: the fence is checked and its lock held, the
 * step is marked, `fn` has its effect, the step's value is kept. A step that is there already gives its value and
 * `fn` does not run. Throws `ERR_FENCE_STALE` when another run owns the task.
 */
export interface EffectDoor<Tx = unknown> {
  pass(
    run: DoorRun,
    step: string,
    fn: (tx: Tx) => Promise<Uint8Array | null>,
  ): Promise<Uint8Array | null>;
  /** Fences off every earlier run of the task, before this one has had any effect. */
  fence(run: RunRef): Promise<void>;
}

/** A run in front of the door. */
export interface DoorRun extends RunRef {
  /** What the steps belong to beside the task itself: they are done once for the task, and once for all tasks of this key. */
  readonly effect?: EffectKey | undefined;
}

export interface EffectKey {
  readonly key: string;
  /** How long its steps are kept after their task has been forgotten. */
  readonly ttlMs: number;
}

/** What the door found: a step that is still to be done, or the value of one that was done before. */
export type Entrance =
  | { readonly isNew: true }
  | { readonly isNew: false; readonly value: Uint8Array | null };

/** The fences and steps of one database, inside transactions of the user. */
export interface Fences<Tx> {
  /** Commits when `fn` returns and rolls back when it throws. The server ends it when its process has forgotten it. */
  transaction<T>(fn: (tx: Tx) => Promise<T>): Promise<T>;
  /** Statements of ours in `fn` wait 5 s for a lock and no longer; those of the user wait as the user has decided. */
  briefly<T>(tx: Tx, run: RunRef, fn: () => Promise<T>): Promise<T>;
  /**
   * Takes the lock of the fence until the transaction ends, and moves the fence to this run if it stands lower. Answers
   * whose it is then: another run's where that one has as high an epoch as this one, or a higher one.
   */
  take(tx: Tx, run: RunRef): Promise<Pick<RunRef, 'epoch' | 'run'>>;
  /** Of a run with an effect key the step is that of the key, else that of the task. */
  mark(tx: Tx, run: DoorRun, step: string): Promise<Entrance>;
  /**
   * Throws when the transaction in which the step was marked is not the one that is open now. Left out where a database
   * does nothing more in a transaction that has failed.
   */
  confirm?(tx: Tx, run: DoorRun, step: string): Promise<void>;
  keep(tx: Tx, run: DoorRun, step: string, value: Uint8Array): Promise<void>;
  /** Serialization failures and deadlocks: nothing has happened, and it may go well the next time. */
  isConflict(error: unknown): boolean;
  /** The session is gone, and with it the transaction, or the answer to its COMMIT: as an error of a store that is away. */
  asLost(error: unknown): Error | null;
}

/** Writes a task into the outbox inside a transaction; the id of the task. */
export type SendInside<Tx = unknown> = (
  tx: Tx,
  task: Task,
  input: unknown,
  options: SendOptions,
) => Promise<string>;

/** What a door needs of the worker it is used in. */
export interface DoorParts {
  readonly ledger: Pick<Ledger, 'lift'>;
  readonly faultPoint: FaultPoint;
}

/** Where a handler comes from: the instance whose transactions its effects join. */
export interface HandlerOrigin {
  door(parts: DoorParts): EffectDoor;
  readonly sendInside: SendInside;
}

/** What steps are kept under. A name holds no space, so a key is never taken for a task. */
export function effectKeyOf({ id, effect }: DoorRun): string {
  return effect === undefined ? id : `key ${createHash('sha256').update(effect.key).digest('hex')}`;
}

export function fenceStale({ id, epoch }: RunRef): Error {
  return outlastError('ERR_FENCE_STALE', {
    message: `another run owns ${id}`,
    hint: 'Nothing to do: this run must end without writing.',
    fields: { id, epoch },
  });
}

export function fenceBusy({ id }: RunRef, cause: unknown): Error {
  return outlastError('ERR_STORE_UNAVAILABLE', {
    message: `the fence of ${id} is held by another transaction`,
    hint: 'The task is released and runs again; end transactions of dead processes sooner if this happens often.',
    fields: {},
    cause,
  });
}
