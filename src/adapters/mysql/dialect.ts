import { systemClock } from '../../runtime/runtime.ts';
import type { Dialect } from '../sql/dialect.ts';
import { checkSchema, migrate, printMigrations } from './migrate.ts';
import { MysqlCheckpointStore } from './mysql-checkpoint-store.ts';
import { MysqlCheckup } from './mysql-checkup.ts';
import { MysqlDatabase } from './mysql-database.ts';
import { MysqlFenceRows } from './mysql-fence-rows.ts';
import { MysqlFences } from './mysql-fences.ts';
import { MysqlGenerationStore } from './mysql-generation-store.ts';
import { MysqlOutboxReads } from './mysql-outbox-reads.ts';
import { MysqlOutboxStore } from './mysql-outbox-store.ts';
import { MysqlOutboxWriter } from './mysql-outbox-writer.ts';
import { MysqlResultStore } from './mysql-result-store.ts';
import { MysqlScheduleStore } from './mysql-schedule-store.ts';
import { MysqlTiers } from './mysql-tiers.ts';
import { compareMysql } from './same-database.ts';
import { printUninstall, uninstall } from './uninstall.ts';

/** MySQL and MariaDB: an outbox, and never the ledger. */
export const dialect: Dialect = {
  open: async ({ url }, { poolSize, queryTimeoutMs }) => {
    const db = await MysqlDatabase.open({ url, poolSize, queryTimeoutMs });
    return {
      db,
      outbox: new MysqlOutboxStore(db),
      reads: new MysqlOutboxReads(db),
      results: new MysqlResultStore(db),
      generations: new MysqlGenerationStore(db),
      fences: new MysqlFenceRows(db),
      checkpoints: new MysqlCheckpointStore(db),
      schedules: (_target, faultPoint) => new MysqlScheduleStore(db, faultPoint),
      tiers: new MysqlTiers(db),
      ledger: null,
      checkup: new MysqlCheckup(db, () => systemClock.now()),
      migrate: options => migrate(db, options),
      uninstall: options => uninstall(db, options),
      checkSchema: () => checkSchema(db),
      compare: (tx, adapter) => compareMysql(tx, adapter, db),
      close: () => db.close(),
    };
  },
  printMigrations,
  printUninstall,
  writer: executor => new MysqlOutboxWriter(executor),
  fences: adapter => new MysqlFences(adapter),
};
