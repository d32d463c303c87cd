import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { PgDatabase, statementName } from '../../src/adapters/postgres/pg-database.ts';
import { PostgresLedgerReads } from '../../src/adapters/postgres/postgres-ledger-reads.ts';
import { SQL } from '../../src/adapters/postgres/sql.generated.ts';
import type { LedgerSection, Position } from '../../src/ledger/task-line.ts';
import { type MigratedDatabase, migratedDatabase } from '../support/database.ts';

/** Half of them wait, half are over, and a few run. */
const TASKS = 200_000;
const RUNNING = 40;
const SLICE = 500;

let database: MigratedDatabase;
let db: PgDatabase;
let reads: PostgresLedgerReads;

beforeAll(async () => {
  database = await migratedDatabase('task_list_plans');
  // One session: the plans it has kept are those that are measured.
  db = await PgDatabase.open({ url: database.url, poolSize: 1, queryTimeoutMs: 120_000 });
  reads = new PostgresLedgerReads(db);
  await database.pool.query(
    `insert into outlast_task (id, name, queue, priority, payload_version, body, options, digest, state, epoch, run, owner, due,
         ending, ended_at, keep_until)
       select 'task-' || lpad(n::text, 7, '0'), 'plans.task', 'q' || n % 5, n % 3, 1, '[]', '{}', 'x', s.state, 1,
         case when s.state = 'running' then 'run' end, case when s.state = 'running' then 'w' end,
         now() + n * interval '1 millisecond', case when s.state = 'done' then 'done' end,
         case when s.state = 'done' then now() end, case when s.state = 'done' then now() + n * interval '1 millisecond' end
       from generate_series(1, ${TASKS}) n,
         lateral (select case when n <= ${RUNNING} then 'running' when n % 2 = 0 then 'waiting' else 'done' end as state) s`,
  );
  await database.pool.query('vacuum analyze outlast_task');
}, 300_000);

afterAll(async () => {
  await db.close();
  await database.dispose();
});

interface Plan {
  readonly 'Node Type': string;
  readonly 'Actual Rows': number;
  readonly 'Actual Loops': number;
  readonly 'Rows Removed by Filter'?: number;
  readonly 'Rows Removed by Index Recheck'?: number;
  readonly Plans?: readonly Plan[];
}

/** Rows that the scans of a prepared statement of this session read. */
async function readBy(text: string, values: readonly string[]): Promise<number> {
  const given = values.map(value => `'${value}'`).join(', ');
  const [row] = await db.query(
    `explain (analyze, format json) execute ${statementName(text)}(${given})`,
  );
  const [{ Plan: plan }] = JSON.parse(row?.['QUERY PLAN'] as string) as [{ readonly Plan: Plan }];
  const count = (node: Plan): number => {
    const removed =
      (node['Rows Removed by Filter'] ?? 0) + (node['Rows Removed by Index Recheck'] ?? 0);
    const own = node['Node Type'].endsWith('Scan') ? node['Actual Rows'] + removed : 0;
    const here = own * node['Actual Loops'];
    return (node.Plans ?? []).reduce((sum, part) => sum + count(part), here);
  };
  return count(plan);
}

/** Reads many slices, so that the server keeps its plans. Returns where the last one ended. */
async function walk(section: LedgerSection, slices: number): Promise<Position> {
  let after: Position | null = null;
  for (let slice = 0; slice < slices; slice++)
    after = (await reads.walk({ section, queue: null, after, limit: SLICE })).at(-1)?.at ?? after;
  return after ?? [];
}

describe('a list of tasks in a ledger with very many', () => {
  it('reads its slice and little more, at the beginning and far behind', async () => {
    const [, ...waiting] = await walk('waiting', 12);
    const over = await walk('over', 12);
    const limit = String(SLICE);
    for (const [text, values] of [
      [SQL.ledgerWalkWaiting, ['', '-32768', '-infinity', '-1', limit]],
      [SQL.ledgerWalkWaiting, [...waiting, limit]],
      [SQL.ledgerWalkOver, ['infinity', '', limit]],
      [SQL.ledgerWalkOver, [...over, limit]],
    ] as const)
      expect({ text, isFew: (await readBy(text, values)) <= 2 * SLICE }).toEqual({
        text,
        isFew: true,
      });
    await walk('running', 12);
    expect(await readBy(SQL.ledgerWalkRunning, ['', limit])).toBeLessThanOrEqual(2 * RUNNING);
  });
});
