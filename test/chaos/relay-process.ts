import { PgDatabase } from '../../src/adapters/postgres/pg-database.ts';
import { PostgresBroker } from '../../src/adapters/postgres/postgres-broker.ts';
import { PostgresOutboxStore } from '../../src/adapters/postgres/postgres-outbox-store.ts';
import { Relay } from '../../src/relay/relay.ts';
import { noEvents } from '../../src/telemetry/events.ts';
import { silentLogger } from '../../src/telemetry/logger.ts';
import { createRuntime } from '../../src/wiring/runtime.ts';

/** A relay whose outbox and broker are different databases, so that it must claim, publish and settle. */
const open = (name: string): Promise<PgDatabase> =>
  PgDatabase.open({ url: process.env[name] ?? '', poolSize: 2, queryTimeoutMs: 30_000 });
const [outbox, broker] = [await open('CHAOS_OUTBOX_URL'), await open('CHAOS_BROKER_URL')];
const settings = {
  batchSize: 50,
  idleTimeMs: 50,
  backoffTimeMs: 1_000,
  maxBackoffMs: 1_000,
  jitter: 'tenth',
  maxRetries: 5,
  staleTimeoutMs: 30_000,
  sendTimeoutMs: 10_000,
  shutdownTimeoutMs: 1_000,
} as const;
const relay = new Relay({
  outbox: new PostgresOutboxStore(outbox, { movesIntoLedger: false }),
  broker: new PostgresBroker(broker),
  runtime: createRuntime(silentLogger, noEvents),
  settings,
});
const stop = new AbortController();
process.on('SIGTERM', () => stop.abort());
await relay.run(stop.signal);
await outbox.close();
await broker.close();
