import { PostgresOutboxWriter } from '../adapters/postgres/postgres-outbox-writer.ts';
import { fromDatabase } from '../adapters/postgres/sql-transaction.ts';

import { Producer, type Sent } from '../outbox/producer.ts';
import { systemClock } from '../runtime/clock.ts';
import { silentLogger } from '../telemetry/logger.ts';
import type { Call } from '../task/define-task.ts';
import type { Stores } from './stores.ts';

/** Sends calls through the outbox in a transaction of their own: for commands, which have no transaction to join. */
export async function sendCalls(
  stores: Stores,
  calls: readonly Call[],
  maxPayloadBytes: number,
): Promise<readonly Sent[]> {
  const adapter = fromDatabase(() => Promise.resolve(stores.db));
  const producer = new Producer({
    adapter,
    writer: new PostgresOutboxWriter(adapter),
    broker: () => Promise.resolve(stores.broker),
    clock: systemClock,
    log: silentLogger,
    strict: true,
    excludeTasks: [],
    maxPayloadBytes,
  });
  return await adapter.transaction(tx => producer.send(tx, calls));
}
