import { systemClock } from '../../runtime/runtime.ts';
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
import { PostgresScheduleStore } from './postgres-schedule-store.ts';
import { PostgresTiers } from './postgres-tiers.ts';
import { comparePostgres } from './same-database.ts';
import { SchemaNames } from './schema-names.ts';
import { SQL } from './sql.generated.ts';
import { printUninstall, uninstall } from './uninstall.ts';

export const dialect: Dialect = {
  open: async ({ url }, { poolSize, queryTimeoutMs }) =>
    postgresDatabase(await PgDatabase.open({ url, poolSize, queryTimeoutMs })),
  printMigrations: () => printMigrations(),
  printUninstall: () => printUninstall(),
  writer: (executor, options) => new PostgresOutboxWriter(executor, systemClock, options),
  fences: (adapter, isLedgerHere) =>
    isLedgerHere ? new PostgresTaskFences(adapter) : new PostgresFences(adapter),
  inSchema: schema => ({
    ...textsIn(schema),
    open: async ({ url }, { poolSize, queryTimeoutMs }) =>
      postgresDatabase(await PgDatabase.open({ url, poolSize, queryTimeoutMs }), { schema }),
  }),
};

/** What a dialect has without a connection, with its tables in a schema. */
export function textsIn(schema: string): Omit<Dialect, 'open' | 'inSchema'> {
  const names = new SchemaNames(schema);
  return {
    printMigrations: () => printMigrations(schema),
    printUninstall: () => printUninstall(schema),
    writer: (executor, options) => dialect.writer(names.executor(executor), options),
    fences: (adapter, isLedgerHere) => dialect.fences(names.adapter(adapter), isLedgerHere),
  };
}

export interface PostgresParts {
  readonly isEmbedded?: boolean;
  /** Left out: tables are where `search_path` finds them. */
  readonly schema?: string;
}

/** What is in a PostgreSQL, embedded or not. Nothing is asked here. */
export function postgresDatabase(
  connected: PostgresDatabase,
  { isEmbedded = false, schema }: PostgresParts = {},
): OutboxDatabase {
  const names = schema === undefined ? null : new SchemaNames(schema);
  const db = names?.database(connected) ?? connected;
  const inSchema = schema === undefined ? {} : { schema };
  return {
    // Statements of the user are run on it.
    db: connected,
    outbox: new PostgresOutboxStore(db, { movesIntoLedger: false }),
    reads: new PostgresOutboxReads(db),
    results: new PostgresResultStore(db),
    generations: new PostgresGenerationStore(db),
    fences: new PostgresFenceRows(db),
    checkpoints: new PostgresCheckpointStore(db),
    schedules: (target, faultPoint) => new PostgresScheduleStore(db, target, faultPoint),
    forgetTests: async (prefix, olderThanMs) =>
      void (await db.query(SQL.forgetTests, [prefix, olderThanMs])),
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
    migrate: options => migrate(db, { ...options, ...inSchema }),
    uninstall: options => uninstall(db, { ...options, ...inSchema }),
    checkSchema: () => checkSchema(db),
    compare: (tx, adapter) => comparePostgres(tx, adapter, { own: db, names }),
    close: () => db.close(),
  };
}
