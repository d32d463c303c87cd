import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { PgDatabase } from '../../src/adapters/postgres/pg-database.ts';
import { PostgresAdmissionStore } from '../../src/adapters/postgres/postgres-admission-store.ts';
import { SQL } from '../../src/adapters/postgres/sql.generated.ts';
import { migratedDatabase, type MigratedDatabase } from '../support/database.ts';

let database: MigratedDatabase;
let db: PgDatabase;

beforeAll(async () => {
  database = await migratedDatabase('bounds');
  db = await PgDatabase.open({ url: database.url, poolSize: 1, queryTimeoutMs: 30_000 });
});
afterAll(async () => {
  await db.close();
  await database.dispose();
});

const count = async (what: string): Promise<number> =>
  Number((await db.query(`select count(*) as n from ${what}`))[0]?.['n']);

describe('one statement of PostgreSQL', () => {
  it('takes a thousand rows of a lost relay, and the next call the rest', async () => {
    await db.query(`insert into outlast_outbox
      (task_id, task_name, queue, priority, args, kwargs, embed, options, digest, schema_version, payload_version,
        available_at, state, claim_token, claimed_by, claimed_until)
      select 'lost-' || n, 'work', 'q', 0, '[]', '{}', '{}', '{}', 'd', 1, 1,
        now(), 'claimed', 't', 'lost', now() + interval '1 hour'
      from generate_series(1, 1500) n`);
    const left: number[] = [];
    for (let look = 0; look < 2; look++) {
      await db.query(SQL.reclaim);
      left.push(await count(`outlast_outbox where state = 'claimed'`));
    }
    expect(left).toEqual([500, 0]);
  });

  it('prunes a bounded number of permits, and is repeated until all are gone', async () => {
    const addPermits = (): Promise<unknown> =>
      db.query(`insert into outlast_permit (token, ends_at)
        select 'p-' || n, clock_timestamp() - interval '1 hour' from generate_series(1, 2500) n`);
    await addPermits();
    await db.query(SQL.admissionPrune, [1_000]);
    expect(await count('outlast_permit')).toBe(1_500);
    await new PostgresAdmissionStore(db).prune();
    expect(await count('outlast_permit')).toBe(0);
  });
});
