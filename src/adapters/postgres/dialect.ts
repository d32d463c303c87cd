import { systemClock } from '../../runtime/clock.ts';
import type { Dialect, LedgerInDatabase, OutboxDatabase } from '../sql/dialect.ts';
import { checkSchema, migrate, printMigrations } from './migrate.ts';
import { PgDatabase } from './pg-database.ts';
import { PostgresAdmissionStore } from './postgres-admission-store.ts';
import { PostgresBroker } from './postgres-broker.ts';
import { PostgresCheckpointStore } from './postgres-checkpoint-store.ts';
import { PostgresCheckup } from './postgres-checkup.ts';
import { noteChords } from './postgres-chord.ts';
import { PostgresControlStore } from './postgres-control-store.ts';
import type { PostgresDatabase } from './postgres-database.ts';
import { postgresEvacuation } from './postgres-evacuation.ts';
import { PostgresFenceRows } from './postgres-fence-rows.ts';
import { PostgresFences, PostgresTaskFences } from './postgres-fences.ts';
import { PostgresGenerationStore } from './postgres-generation-store.ts';
import { PostgresIdempotencyStore } from './postgres-idempotency-store.ts';
import { PostgresLedgerReads } from './postgres-ledger-reads.ts';
import { PostgresLedger } from './postgres-ledger.ts';
import { PostgresOutboxReads } from './postgres-outbox-reads.ts';
import { PostgresOutboxStore } from './postgres-outbox-store.ts';
import { PostgresOutboxWriter } from './postgres-outbox-writer.ts';
import { PostgresResultStore } from './postgres-result-store.ts';
import { PostgresTiers } from './postgres-tiers.ts';
import { comparePostgres } from './same-database.ts';

export const dialect: Dialect = {
  open: async ({ url }, { poolSize, queryTimeoutMs }) =>
    postgresDatabase(await PgDatabase.open({ url, poolSize, queryTimeoutMs })),
  printMigrations,
  writer: executor => new PostgresOutboxWriter(executor, systemClock),
  fences: (adapter, isLedgerHere) =>
    isLedgerHere ? new PostgresTaskFences(adapter) : new PostgresFences(adapter),
};

/** What is in a PostgreSQL, embedded or not. Nothing is asked here. */
export function postgresDatabase(db: PostgresDatabase, isEmbedded = false): OutboxDatabase {
  return {
    db,
    outbox: new PostgresOutboxStore(db, { movesIntoLedger: false }),
    reads: new PostgresOutboxReads(db),
    results: new PostgresResultStore(db),
    generations: new PostgresGenerationStore(db),
    fences: new PostgresFenceRows(db),
    checkpoints: new PostgresCheckpointStore(db),
    tiers: new PostgresTiers(db),
    ledger: ({ movesIntoLedger, ...options }): LedgerInDatabase => ({
      outbox: new PostgresOutboxStore(db, { movesIntoLedger }),
      broker: new PostgresBroker(db),
      ledger: new PostgresLedger(db, options),
      control: new PostgresControlStore(db),
      idempotency: new PostgresIdempotencyStore(db),
      admission: new PostgresAdmissionStore(db),
      reads: new PostgresLedgerReads(db),
      evacuation: postgresEvacuation(db),
      noteChords: messages => noteChords(db, messages),
    }),
    checkup: new PostgresCheckup(db, { isEmbedded, nowMs: () => systemClock.now() }),
    migrate: options => migrate(db, options),
    checkSchema: () => checkSchema(db),
    compare: (tx, adapter) => comparePostgres(tx, adapter, db),
    close: () => db.close(),
  };
}
