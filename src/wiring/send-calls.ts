import { PostgresOutboxWriter } from '../adapters/postgres/postgres-outbox-writer.ts';
import { fromDatabase } from '../adapters/postgres/sql-transaction.ts';
import type { SentCall } from '../outbox/compose-call.ts';
import { Producer } from '../outbox/producer.ts';
import { systemClock } from '../runtime/clock.ts';
import { silentLogger } from '../telemetry/logger.ts';
import type { Call } from '../task/define-task.ts';
import type { Redact } from '../task/redact.ts';
import type { Stores } from './stores.ts';

/** Sends calls through the outbox in a transaction of their own: for commands, which have no transaction to join. */
export async function sendCalls(
  stores: Stores,
  calls: readonly Call[],
  { maxPayloadBytes, redact }: { readonly maxPayloadBytes: number; readonly redact: Redact | null },
): Promise<readonly SentCall[]> {
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
    redact,
    parent: () => null,
  });
  return await adapter.transaction(tx => producer.send(tx, calls));
}
