import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { PgDatabase, statementName } from '../../src/adapters/postgres/pg-database.ts';
import { PostgresOutboxStore } from '../../src/adapters/postgres/postgres-outbox-store.ts';
import { SQL } from '../../src/adapters/postgres/sql.generated.ts';
import { BATCH_BYTES } from '../../src/ledger/batch-limits.ts';
import { type MigratedDatabase, migratedDatabase } from '../support/database.ts';

const ROWS = 10_000;
const BATCH = 1_000;
/** Rows that were read in vain for each row of a batch. */
const WASTE_PER_ROW = 20;

let database: MigratedDatabase;
let db: PgDatabase;

beforeAll(async () => {
  database = await migratedDatabase('backlog_plans');
  // One session: the plans it has kept are those that are measured.
  db = await PgDatabase.open({ url: database.url, poolSize: 1, queryTimeoutMs: 60_000 });
});

afterAll(async () => {
  await db.close();
  await database.dispose();
});

interface Plan {
  readonly 'Actual Loops': number;
  readonly 'Rows Removed by Join Filter'?: number;
  readonly 'Rows Removed by Filter'?: number;
  readonly Plans?: readonly Plan[];
}

/** Rows that a statement of this session reads in vain. */
async function wasteOf(text: string, values: readonly (string | number | null)[]): Promise<number> {
  const given = values.map(value => (typeof value === 'string' ? `'${value}'` : String(value)));
  const [row] = await db.query(
    `explain (analyze, format json) execute ${statementName(text)}(${given.join(', ')})`,
  );
  const [{ Plan: plan }] = JSON.parse(row?.['QUERY PLAN'] as string) as [{ readonly Plan: Plan }];
  return sum(plan);
}

function sum(plan: Plan): number {
  const here = (plan['Rows Removed by Join Filter'] ?? 0) + (plan['Rows Removed by Filter'] ?? 0);
  return (plan.Plans ?? []).reduce((total, part) => total + sum(part), here * plan['Actual Loops']);
}

describe('a relay that has waited on an empty outbox', () => {
  it('does not read the whole backlog for every row of it', async () => {
    for (const table of ['outlast_outbox', 'outlast_task'])
      await database.pool.query(`vacuum analyze ${table}`);
    const moving = new PostgresOutboxStore(db, { movesIntoLedger: true });
    const claiming = new PostgresOutboxStore(db, { movesIntoLedger: false });
    // The server considers keeping a plan after five runs.
    for (let look = 0; look < 10; look++) {
      await moving.move?.(BATCH);
      await claiming.claim({ relay: 'r', token: `t${look}`, limit: BATCH, staleMs: 60_000 });
    }
    await database.pool.query(
      `insert into outlast_outbox (task_id, task_name, queue, priority, args, kwargs, embed, options, digest,
         schema_version, payload_version, available_at)
       select 'task' || n, 'some', 'default', 0, '[]', '{}', '{}', '{}', '', 1, 1, now() from generate_series(1, $1::int) n`,
      [ROWS],
    );
    const claim = await wasteOf(SQL.claim, [
      'r',
      'token',
      BATCH,
      60_000,
      2,
      null,
      BATCH_BYTES / BATCH,
      null,
    ]);
    expect(claim).toBeLessThan(BATCH * WASTE_PER_ROW);
    const move = await wasteOf(SQL.move, [BATCH, 2, null]);
    expect(move).toBeLessThan(BATCH * WASTE_PER_ROW);
    const { rows } = await database.pool.query(
      `select (select count(*)::int from outlast_task) as moved, count(*)::int as claimed from outlast_outbox where state = 'claimed'`,
    );
    expect(rows).toEqual([{ moved: BATCH, claimed: BATCH }]);
  });
});
