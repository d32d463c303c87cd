import { postgresDatabase } from '../../../src/adapters/postgres/dialect.ts';
import { printMigrations } from '../../../src/adapters/postgres/migrate.ts';
import {
  PostgresFences,
  PostgresTaskFences,
} from '../../../src/adapters/postgres/postgres-fences.ts';
import { PostgresOutboxWriter } from '../../../src/adapters/postgres/postgres-outbox-writer.ts';
import { printUninstall } from '../../../src/adapters/postgres/uninstall.ts';
import type { Dialect } from '../../../src/adapters/sql/dialect.ts';
import { systemClock } from '../../../src/runtime/runtime.ts';
import { openToy } from './toy-database.ts';

/** A database of its own kind for all that asks. Only its stores are those of PostgreSQL, because that is what is in it. */
export const dialect: Dialect = {
  open: async ({ folder = '' }) => ({
    ...postgresDatabase(await openToy(folder), { isEmbedded: true }),
    close: async () => undefined,
  }),
  printMigrations: () => `-- toy\n${printMigrations()}`,
  printUninstall: () => `-- toy\n${printUninstall()}`,
  writer: adapter => new PostgresOutboxWriter(adapter, systemClock),
  fences: (adapter, isLedgerHere) =>
    isLedgerHere ? new PostgresTaskFences(adapter) : new PostgresFences(adapter),
};
