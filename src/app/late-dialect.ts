import type { Dialect } from '../adapters/sql/dialect.ts';
import type { OutboxWriter } from '../outbox/outbox-writer.ts';
import type { Executor, TransactionAdapter } from '../outbox/transaction-adapter.ts';
import type { DoorParts, EffectDoor } from '../worker/effects/door.ts';
import { EffectOnceDoor } from '../worker/effects/effect-once-door.ts';

/** A dialect that is loaded when it is first needed: to make an instance waits for nothing. */
export type LateDialect = () => Promise<Dialect>;

/** Writes through a library in the words of its database. */
export function lateWriter<Tx>(load: LateDialect, executor: Executor<Tx>): OutboxWriter<Tx> {
  // Loaded now: a first send that waited for it would reach the connection after what its caller runs next.
  const loading = load();
  loading.catch(() => undefined);
  const writer = once(async () => (await loading).writer(executor));
  return {
    write: (tx, tasks, ready) => writer(one => one.write(tx, tasks, ready)),
    isInTransaction: tx => writer(one => one.isInTransaction(tx)),
    noteChords: (tx, chords) => writer(async one => await one.noteChords?.(tx, chords)),
  };
}

/** The door to the effects of an instance: where its database is the ledger's, the task row is the fence. */
export function lateDoor<Tx>(
  load: LateDialect,
  adapter: TransactionAdapter<Tx>,
  { ledger, faultPoint, isLedgerHere }: DoorParts & { readonly isLedgerHere: boolean },
): EffectDoor<Tx> {
  const door = once(async () => {
    const fences = (await load()).fences(adapter, isLedgerHere);
    return new EffectOnceDoor({ fences, ledger: isLedgerHere ? null : ledger, faultPoint });
  });
  return {
    locksTask: isLedgerHere,
    pass: (run, step, fn) => door(one => one.pass(run, step, fn)),
    fence: run => door(one => one.fence(run)),
  };
}

/** Uses what is made with the first call; from then on nothing is waited for. */
function once<One>(make: () => Promise<One>): <T>(use: (one: One) => Promise<T>) => Promise<T> {
  let made: One | undefined;
  let making: Promise<One> | undefined;
  return async use => {
    making ??= make();
    made ??= await making;
    return await use(made);
  };
}
