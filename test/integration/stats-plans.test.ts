import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { SQL } from '../../src/adapters/postgres/sql.generated.ts';
import { migratedDatabase, type MigratedDatabase } from '../support/database.ts';

let database: MigratedDatabase;

beforeAll(async () => {
  database = await migratedDatabase('plans');
  const { pool } = database;
  await pool.query(
    `insert into outlast_outbox (task_id, task_name, queue, priority, args, kwargs, embed, options, digest,
       schema_version, payload_version, available_at)
     select 'row-' || i, 'task.' || i % 50, 'q' || i % 7, 0, convert_to(repeat('x', 200), 'UTF8'), '{}', 'null', '{}',
       repeat('0', 64), 1, 1, now() + i * interval '1 ms' from generate_series(1, 20000) i`,
  );
  await pool.query(
    `insert into outlast_task (id, name, queue, priority, payload_version, body, options, digest, state, ending,
       ended_at, keep_until, history)
     select 'task-' || i, 'task.' || i % 50, 'q' || i % 7, 0, 1, '', '{}', repeat('0', 64), 'done', 'done', now(),
       now() + interval '1 day', convert_to(repeat('h', 300), 'UTF8') from generate_series(1, 20000) i`,
  );
  // Complete, all of them, and kept for a day.
  await pool.query(
    `insert into outlast_chord_part (group_id, place, size, task_id, result)
     select 'group-' || i / 10, i % 10, 10, 'task-' || i, '1' from generate_series(0, 19999) i`,
  );
  await pool.query('truncate outlast_chord');
  await pool.query(
    'vacuum analyze outlast_outbox, outlast_task, outlast_chord_part, outlast_chord',
  );
});

afterAll(() => database.dispose());

async function wholeTables(text: string, params: readonly unknown[]): Promise<string[]> {
  const { rows } = await database.pool.query<{ 'QUERY PLAN': string }>(`explain ${text}`, [
    ...params,
  ]);
  return rows
    .map(row => row['QUERY PLAN'].trim())
    .filter(line => /Seq Scan on outlast_(outbox|task|chord_part)\b/.test(line));
}

describe('statistics of full tables', () => {
  it.each([
    ['outboxSample', [2]],
    ['outboxFailing', [5]],
    ['outboxList', [2, '5', 50]],
    ['ledgerEnded', []],
    ['ledgerQueues', []],
    ['ledgerFailing', [5]],
    ['chordOpen', [5]],
    ['ledgerRecent', [30]],
    ['ledgerLettersNewest', ['2026-01-01T00:00:00Z', 'x', null, 50]],
    ['ledgerLettersOldest', [null, null, 'shop.%', 50]],
    ['purgeDead', [1_000, null, null, 1_000, 1_000]],
    ['countDead', [1_000, null, null]],
    ['doctorOutbox', [2, 60_000]],
    ['doctorLedger', [60_000, 15_000]],
  ] as const)('%s reads no table from end to end', async (name, params) => {
    expect(await wholeTables(SQL[name], params)).toEqual([]);
  });

  it('by queue are estimated where there are many rows, and the sum is exact', async () => {
    const { rows } = await database.pool.query<{ queue: string; rows: string }>(
      SQL.outboxQueuesSampled,
      [50, 20_000],
    );
    const sum = rows.reduce((all, row) => all + Number(row.rows), 0);
    expect(Math.abs(sum - 20_000)).toBeLessThanOrEqual(rows.length);
    expect(rows.map(({ queue }) => queue)).toEqual(['q0', 'q1', 'q2', 'q3', 'q4', 'q5', 'q6']);
  });
});
