import type { Check, CheckLimits } from '../admin/checkup.ts';
import { systemClock } from '../runtime/clock.ts';
import {
  checkSchema,
  migrate,
  printMigrations,
  type MigrateReport,
} from '../adapters/mysql/migrate.ts';
import { MysqlCheckpointStore } from '../adapters/mysql/mysql-checkpoint-store.ts';
import { MysqlDatabase } from '../adapters/mysql/mysql-database.ts';
import { MysqlCheckup } from '../adapters/mysql/mysql-checkup.ts';
import { MysqlFenceRows } from '../adapters/mysql/mysql-fence-rows.ts';
import { MysqlGenerationStore } from '../adapters/mysql/mysql-generation-store.ts';
import { MysqlOutboxReads } from '../adapters/mysql/mysql-outbox-reads.ts';
import { MysqlOutboxStore } from '../adapters/mysql/mysql-outbox-store.ts';
import { MysqlResultStore } from '../adapters/mysql/mysql-result-store.ts';
import type { OutboxApart } from './outbox-apart.ts';

const POOL_SIZE = 10;
const QUERY_TIMEOUT_MS = 35_000;

async function openMysql(url: string): Promise<MysqlDatabase> {
  return await MysqlDatabase.open({ url, poolSize: POOL_SIZE, queryTimeoutMs: QUERY_TIMEOUT_MS });
}

/** Connects, and refuses a database whose tables are not what this version works with. */
export async function openMysqlOutbox(url: string): Promise<OutboxApart> {
  const db = await openMysql(url);
  try {
    await checkSchema(db);
  } catch (error) {
    await db.close();
    throw error;
  }
  return {
    db,
    dialect: 'mysql',
    outbox: new MysqlOutboxStore(db),
    reads: new MysqlOutboxReads(db),
    results: new MysqlResultStore(db),
    generations: new MysqlGenerationStore(db),
    fences: new MysqlFenceRows(db),
    checkpoints: new MysqlCheckpointStore(db),
  };
}

/** Looks at an outbox; its tables may be missing. */
export async function checkMysql(url: string, limits: CheckLimits): Promise<readonly Check[]> {
  const db = await openMysql(url);
  try {
    return await new MysqlCheckup(db, () => systemClock.now()).run(limits);
  } finally {
    await db.close();
  }
}

export async function migrateMysql(url: string): Promise<MigrateReport> {
  const db = await openMysql(url);
  try {
    return await migrate(db);
  } finally {
    await db.close();
  }
}

export { printMigrations as printMysqlMigrations };
