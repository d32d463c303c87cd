import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { PgDatabase } from '../../src/adapters/postgres/pg-database.ts';
import { PostgresOutboxStore } from '../../src/adapters/postgres/postgres-outbox-store.ts';
import type { PostgresDatabase } from '../../src/adapters/postgres/postgres-database.ts';
import { SQL } from '../../src/adapters/postgres/sql.generated.ts';
import { migratedDatabase, type MigratedDatabase } from '../support/database.ts';

const ROUNDS = 40;
const ROWS = 1_000;

let database: MigratedDatabase;
let db: PgDatabase;

beforeAll(async () => {
  database = await migratedDatabase('old_snapshot');
  db = await PgDatabase.open({ url: database.url, poolSize: 2, queryTimeoutMs: 60_000 });
});

afterAll(async () => {
  await db.close();
  await database.dispose();
});

/** Rows as the outbox has them, due so many seconds ago. */
async function write(name: string, count: number, secondsAgo: number): Promise<void> {
  await database.pool.query(
    `insert into outlast_outbox (task_id, task_name, queue, priority, args, kwargs, embed, options, digest,
       schema_version, payload_version, available_at)
     select $1::text || n, 'some', 'default', 0, '[]', '{}', '{}', '{}', '', 1, 1, now() - $3::int * interval '1 second'
     from generate_series(1, $2::int) n`,
    [name, count, secondsAgo],
  );
}

/** The database, and the parameters of every claim made through it. */
function recorded(): { readonly db: PostgresDatabase; readonly claims: unknown[][] } {
  const claims: unknown[][] = [];
  const proxy = new Proxy(db, {
    get: (target, key) => {
      const value: unknown = Reflect.get(target, key, target);
      if (key !== 'query') return value;
      return (text: string, values?: unknown[]) => {
        if (text === SQL.claim) claims.push(values ?? []);
        return target.query(text, values as never);
      };
    },
  });
  return { db: proxy, claims };
}

interface Plan {
  readonly 'Shared Hit Blocks': number;
  readonly 'Shared Read Blocks': number;
}

/** Pages that a claim with these parameters would touch; it is rolled back. */
async function pagesOf(values: readonly unknown[]): Promise<number> {
  const client = await database.pool.connect();
  try {
    await client.query('begin');
    const { rows } = await client.query<{ 'QUERY PLAN': { Plan: Plan }[] }>(
      `explain (analyze, buffers, format json) ${SQL.claim}`,
      [...values],
    );
    const plan = rows[0]?.['QUERY PLAN'][0]?.Plan as Plan;
    return plan['Shared Hit Blocks'] + plan['Shared Read Blocks'];
  } finally {
    await client.query('rollback');
    client.release();
  }
}

describe('a foreign transaction that is open for ten minutes', () => {
  it('does not make each claim of the relay slower than the one before', async () => {
    const foreign = await database.pool.connect();
    try {
      await foreign.query('begin isolation level repeatable read');
      await foreign.query('select count(*) from outlast_outbox');
      const { db: through, claims } = recorded();
      // The clock stands still: no full scan is started by time.
      const store = new PostgresOutboxStore(through, {
        movesIntoLedger: false,
        monotonic: () => 0,
      });
      await store.beat('relay', 600_000);
      for (let round = 0; round < ROUNDS; round++) {
        await write(`r${round}-`, ROWS, 15 * (ROUNDS - round));
        const token = `token${round}`;
        const rows = await store.claim({ relay: 'relay', token, limit: ROWS, staleMs: 600_000 });
        expect(rows).toHaveLength(ROWS);
        await store.settlePublished(
          token,
          rows.map(({ row }) => row),
        );
      }
      await write('last-', 10, 0);
      const rows = await store.claim({ relay: 'relay', token: 'last', limit: 10, staleMs: 60_000 });
      expect(rows).toHaveLength(10);
      const lastClaim = claims.at(-1) as unknown[];
      expect(lastClaim[5]).not.toBeNull();
      await store.release('last');
      const fromTheFloor = await pagesOf(lastClaim);
      const fromTheBeginning = await pagesOf(lastClaim.toSpliced(5, 1, null));
      // Both also write ten rows, which is most of the smaller figure.
      expect(fromTheFloor * 3).toBeLessThan(fromTheBeginning);
    } finally {
      await foreign.query('rollback');
      foreign.release();
    }
  });

  it('hides no row that was committed late or released', async () => {
    const store = new PostgresOutboxStore(db, { movesIntoLedger: false, monotonic: () => 0 });
    const take = async (token: string): Promise<readonly string[]> =>
      (await store.claim({ relay: 'other', token, limit: 100, staleMs: 60_000 })).map(
        ({ envelope }) => envelope.id,
      );
    await database.pool.query('delete from outlast_outbox');
    await store.beat('other', 600_000);
    await write('early-', 1, 0);
    expect(await take('t1')).toEqual(['early-1']);
    // Its transaction began an hour before the one whose row is claimed already.
    await write('late-', 1, 3_600);
    expect(await take('t2')).toEqual(['late-1']);
    await write('later-', 1, 0);
    await store.release('t2');
    expect(await take('t3')).toEqual(expect.arrayContaining(['late-1', 'later-1']));
  });
});

describe('a claim and the delete after it', () => {
  it('do not wait for the disk, and restore the session', async () => {
    await database.pool.query('delete from outlast_outbox');
    await write('quick-', 1, 0);
    const client = await database.pool.connect();
    const setting = async (): Promise<unknown> =>
      (await client.query<{ synchronous_commit: string }>('show synchronous_commit')).rows[0]
        ?.synchronous_commit;
    try {
      const before = await setting();
      expect(before).not.toBe('off');
      await client.query('begin');
      const { rows } = await client.query<{ row: string }>(SQL.claim, [
        'quick',
        'token',
        10,
        60_000,
        2,
        null,
        1_000,
        null,
      ]);
      expect(rows).toHaveLength(1);
      expect(await setting()).toBe('off');
      await client.query('commit');
      expect(await setting()).toBe(before);
      const settle = async (): Promise<unknown> => {
        await client.query('begin');
        await client.query(SQL.settlePublished, ['token', rows.map(({ row }) => row)]);
        const during = await setting();
        await client.query('rollback');
        return during;
      };
      expect(await settle()).toBe('off');
      expect(await setting()).toBe(before);
      // Published again after a crash, it would come behind the next row of its key.
      await client.query(`update outlast_outbox set ordering_key = 'key'`);
      expect(await settle()).toBe(before);
    } finally {
      client.release();
    }
  });
});
