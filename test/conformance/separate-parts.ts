import type { TransactionAdapter } from '../../src/outbox/transaction-adapter.ts';
import type { FenceRows } from '../../src/recovery/fence-rows.ts';
import { noFaults, type FaultPoint } from '../../src/runtime/runtime.ts';
import type { Fences } from '../../src/worker/effects/door.ts';
import { EffectOnceDoor } from '../../src/worker/effects/effect-once-door.ts';
import { describeEffectDoor } from './effect-door.ts';
import type { LedgerReadsFixture } from './ledger-reads.ts';
import { describeSeparateDoor, type SeparateDoorFixture } from './separate-door.ts';

type Ask = (sql: string) => Promise<readonly Readonly<Record<string, unknown>>[]>;

export interface SeparateParts<Tx> {
  readonly adapter: TransactionAdapter<Tx>;
  readonly fences: Fences<Tx>;
  readonly rows: FenceRows;
  readonly ledger: LedgerReadsFixture;
  /** Runs on its own connection; parameters are in the text. */
  readonly ask: Ask;
  readonly conflict: object;
  readonly canInterleave?: false;
}

/** A door whose ledger is one store and whose effects are in another. */
async function separateDoor<Tx>(parts: SeparateParts<Tx>): Promise<SeparateDoorFixture<Tx>> {
  const { adapter, fences, rows, ledger: store, ask, conflict } = parts;
  const { ledger } = store;
  const doorWith = (faultPoint: FaultPoint) => new EffectOnceDoor({ fences, ledger, faultPoint });
  const isMysql = adapter.dialect === 'mysql';
  return {
    ...store,
    rows,
    door: doorWith(noFaults),
    doorWith,
    canInterleave: parts.canInterleave ?? true,
    conflict: () => Object.assign(new Error('try again'), conflict),
    write: async (tx, key) => {
      await adapter.execute(tx, `insert into effect values ('${key}')`, []);
    },
    count: async key => (await ask(`select 1 as one from effect where name = '${key}'`)).length,
    kept: async id => {
      const [fence] = await ask(`select epoch from outlast_fence where task_id = '${id}'`);
      const steps = await ask(`select step from outlast_effect where task_id = '${id}'`);
      return { epoch: fence ? Number(fence['epoch']) : null, steps: steps.length };
    },
    age: async ms => {
      const by = isMysql ? `interval ${ms * 1_000} microsecond` : `interval '${ms} milliseconds'`;
      const shift = (column: string): string => `${column} = ${column} - ${by}`;
      await ask(`update outlast_fence set ${shift('look_at')}, ${shift('updated_at')}`);
      await ask(`update outlast_effect set ${shift('ends_at')}, ${shift('created_at')}`);
    },
  };
}

/** The table that the effects of the suites are written to. */
export const EFFECT = 'create table effect (name varchar(200) not null)';

/** The suites of doors, on a ledger that is in another store than the effects. */
export function describeDoors<Tx>(name: string, make: () => Promise<SeparateParts<Tx>>): void {
  const fixture = async (): Promise<SeparateDoorFixture<Tx>> => await separateDoor(await make());
  describeEffectDoor(name, fixture);
  describeSeparateDoor(name, fixture);
}
