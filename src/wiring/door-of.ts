import { MysqlFences } from '../adapters/mysql/mysql-fences.ts';
import { PostgresFences, PostgresTaskFences } from '../adapters/postgres/postgres-fences.ts';
import type { TransactionAdapter } from '../outbox/transaction-adapter.ts';
import type { DoorParts, EffectDoor } from '../worker/door.ts';
import { EffectOnceDoor } from '../worker/effect-once-door.ts';
import type { Internals } from './internals.ts';

/** The door to the effects of an instance: where its database is the ledger's, the task row is the fence. */
export function doorOf<Tx>(
  adapter: TransactionAdapter<Tx>,
  { config, outboxTarget }: Pick<Internals, 'config' | 'outboxTarget'>,
  { ledger, faultPoint }: DoorParts,
): EffectDoor<Tx> {
  if (adapter.dialect === 'mysql')
    return new EffectOnceDoor({ fences: new MysqlFences(adapter), ledger, faultPoint });
  const isLedgerHere = outboxTarget === null && config.ledger.kind !== 'redis';
  return isLedgerHere
    ? new EffectOnceDoor({ fences: new PostgresTaskFences(adapter), ledger: null, faultPoint })
    : new EffectOnceDoor({ fences: new PostgresFences(adapter), ledger, faultPoint });
}
