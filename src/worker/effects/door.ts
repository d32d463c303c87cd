import { createHash } from 'node:crypto';
import { outlastError } from '../../errors/error.ts';
import type { Ledger, RunRef } from '../../ledger/ledger.ts';
import type { FaultPoint } from '../../runtime/runtime.ts';
import type { SendOptions, Task } from '../../task/define-task.ts';

/**
 * The effect-once door. In one transaction of the user's database: the fence is checked and its lock held, the
 * step is marked, `fn` has its effect, the step's value is stored. A step that is marked already returns its value and
 * `fn` does not run. Throws `ERR_FENCE_STALE` when another run owns the task.
 */
export interface EffectDoor<Tx = unknown> {
  /** Whether the fence is the task's own row: then a checkpoint waits until an open transaction has ended. */
  readonly locksTask: boolean;
  pass(
    run: DoorRun,
    step: string,
    fn: (tx: Tx) => Promise<Uint8Array | null>,
  ): Promise<Uint8Array | null>;
  /** Fences off every earlier run of the task, before this one has had any effect. */
  fence(run: RunRef): Promise<void>;
}

/** A run that asks to pass the door. */
export interface DoorRun extends RunRef {
  /** The steps also belong to this key: they are done once for the task, and once for all tasks of the key. */
  readonly effect?: EffectKey | undefined;
}

export interface EffectKey {
  readonly key: string;
  /**
   * The task that took the key when it was new, according to the key store. What the database of the effects remembers
   * takes precedence: the key store is another one after a change of the ledger, and may have lost its data.
   */
  readonly origin: string;
  /** How long its steps are kept after their task has been forgotten. */
  readonly ttlMs: number;
}

/** What the door found: a step that is still to do, or the value of one that was done before. */
export type Entrance =
  /** `effect`: with the origin under which the step of a key was marked. */
  | { readonly isNew: true; readonly effect?: EffectKey }
  | { readonly isNew: false; readonly value: Uint8Array | null };

/** The fences and steps of one database, inside transactions of the user. */
export interface Fences<Tx> {
  /** Commits when `fn` returns and rolls back when it throws. The server ends it when its process has abandoned it. */
  transaction<T>(fn: (tx: Tx) => Promise<T>): Promise<T>;
  /** Our own statements in `fn` wait at most 5 s for a lock; the user's statements wait as the user has configured. */
  briefly<T>(tx: Tx, run: RunRef, fn: () => Promise<T>): Promise<T>;
  /**
   * Takes the lock of the fence until the transaction ends, and raises the fence to this run if it is lower. Returns the
   * run that holds the fence then: another one if its epoch is as high as this run's, or higher.
   */
  take(tx: Tx, run: RunRef): Promise<Pick<RunRef, 'epoch' | 'run'>>;
  /** For a run with an effect key the step belongs to the key, else to the task. */
  mark(tx: Tx, run: DoorRun, step: string): Promise<Entrance>;
  /**
   * Throws when the transaction in which the step was marked is not the one that is open now. Left out for a database that
   * executes nothing more in a failed transaction.
   */
  confirm?(tx: Tx, run: DoorRun, step: string): Promise<void>;
  keep(tx: Tx, run: DoorRun, step: string, value: Uint8Array): Promise<void>;
  /** Serialization failures and deadlocks: nothing has happened, and a retry may succeed. */
  isConflict(error: unknown): boolean;
  /** The session is gone, and with it the transaction or the reply to its COMMIT: returned as a store-unavailable error. */
  asLost(error: unknown): Error | null;
}

/** Writes a task into the outbox inside a transaction; returns the id of the task. */
export type SendInside<Tx = unknown> = (
  tx: Tx,
  task: Task,
  input: unknown,
  options: SendOptions,
) => Promise<string>;

/** What a door needs from its worker. */
export interface DoorParts {
  readonly ledger: Pick<Ledger, 'raiseEpoch'>;
  readonly faultPoint: FaultPoint;
}

/** Where a handler comes from: the instance whose transactions its effects join. */
export interface HandlerOrigin {
  door(parts: DoorParts): EffectDoor;
  readonly sendInside: SendInside;
}

/** The key under which steps are stored. An id that looks like one of a key is marked, so that neither is mistaken for the other. */
export function effectKeyOf({ id, effect }: DoorRun): string {
  if (effect !== undefined) return `key ${keyHash(`${effect.origin} ${effect.key}`)}`;
  return /^(key|task) /.test(id) ? `task ${id}` : id;
}

export function keyHash(key: string): string {
  return createHash('sha256').update(key).digest('hex');
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
