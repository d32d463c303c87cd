import { afterAll, beforeAll, describe, expect, it, onTestFinished } from 'vitest';
import { until } from '../../../test/support/database.ts';
import { TcpProxy } from '../../../test/support/tcp-proxy.ts';
import { withDatabase, type TestDatabase } from '../../../test/support/servers.ts';
import { PgDatabase } from './pg-database.ts';

let server: TestDatabase;

beforeAll(async () => {
  server = await withDatabase('pgdb');
});

afterAll(() => server.drop());

const open = (): Promise<PgDatabase> =>
  PgDatabase.open({ url: server.url, poolSize: 1, queryTimeoutMs: 30_000 });

describe('a statement', () => {
  it('is planned once per connection', async () => {
    const db = await open();
    for (let n = 1; n <= 3; n++)
      expect(await db.query('select $1::int as n', [n])).toEqual([{ n }]);
    const names = await db.query(
      `select name from pg_prepared_statements where statement = 'select $1::int as n'`,
    );
    expect(names).toHaveLength(1);
    await db.close();
  });

  it('keeps its plan if it is marked', async () => {
    const db = await open();
    const text = '/* kept plan */ select $1::int as n';
    for (let n = 1; n <= 3; n++) expect(await db.query(text, [n])).toEqual([{ n }]);
    const kept = `select generic_plans::int as kept, custom_plans::int as fresh from pg_prepared_statements`;
    expect(await db.query(`/* kept plan */ ${kept}`)).toEqual([{ kept: 3, fresh: 0 }]);
    await db.close();
  });

  it('runs also when a pooler assigns a session in which it is not prepared', async () => {
    const db = await open();
    await db.query('create table once (n int)');
    await db.query('insert into once values ($1::int)', [1]);
    // As behind a pooler in transaction mode: the next session has none of our statements.
    await db.query('deallocate all');
    await db.query('insert into once values ($1::int)', [2]);
    expect(await db.query('select n from once order by n')).toEqual([{ n: 1 }, { n: 2 }]);
    await db.close();
  });

  it('runs also after a migration has changed the columns it returns', async () => {
    const db = await open();
    await db.query('create table changing (a int)');
    await db.query('insert into changing values (1)');
    const text = 'select * from changing where a = $1::int';
    expect(await db.query(text, [1])).toEqual([{ a: 1 }]);
    await db.query('alter table changing add b int');
    expect(await db.query(text, [1])).toEqual([{ a: 1, b: null }]);
    await db.close();
  });
});

describe('a statement that fails with a deadlock or a serialization error', () => {
  // A sequence is not rolled back with the statement, so it counts how often the function was run.
  const FLAKY = `create sequence runs; create function flaky(failing int, state text) returns int language plpgsql as $$
    begin
      if nextval('runs') % (failing + 1) <> 0 then raise exception using errcode = state; end if;
      return failing;
    end $$`;

  it('is repeated a limited number of times', async () => {
    const db = await open();
    await db.query(FLAKY);
    for (const state of ['40P01', '40001'])
      expect(await db.query('select flaky(2, $1) as n', [state])).toEqual([{ n: 2 }]);
    const endless = db.query('select flaky(100, $1)', ['40P01']);
    await expect(endless).rejects.toMatchObject({ code: 'ERR_STORE_UNAVAILABLE' });
    await expect(db.query('select flaky(100, $1)', ['22000'])).rejects.toMatchObject({
      code: '22000',
    });
    await db.close();
  });
});

describe('a session', () => {
  it('uses READ COMMITTED and its own timeouts, whatever the defaults of the database are', async () => {
    const admin = await open();
    await admin.query(
      `do $$ begin execute format('alter database %I set default_transaction_isolation = serializable', current_database()); end $$`,
    );
    const db = await open();
    const [row] = await db.query(
      `select current_setting('transaction_isolation') as isolation, current_setting('statement_timeout') as statement,
         current_setting('lock_timeout') as lock, current_setting('idle_in_transaction_session_timeout') as idle,
         current_setting('plan_cache_mode') as plans`,
    );
    expect(row).toEqual({
      isolation: 'read committed',
      statement: '30s',
      lock: '10s',
      idle: '10s',
      plans: 'force_custom_plan',
    });
    await db.close();
    await admin.close();
  });
});

describe('our own pool', () => {
  it('says how many wait for one of its connections', async () => {
    const db = await open();
    onTestFinished(() => db.close());
    const answer = await db.transaction(async tx => {
      await tx.query('select 1');
      const late = db.query('select 2 as n');
      expect(db.waiting).toBe(1);
      return { late };
    });
    expect(await answer.late).toEqual([{ n: expect.anything() as unknown }]);
    expect(db.waiting).toBe(0);
  });
});

describe('a listening connection', () => {
  it('is replaced when it is half open, and gets later notifications', async () => {
    const proxy = await TcpProxy.to(server.url);
    onTestFinished(() => proxy.close());
    const options = { url: proxy.url(server.url), poolSize: 1, queryTimeoutMs: 500 };
    const [db, direct] = [await PgDatabase.open(options), await open()];
    onTestFinished(async () => void (await Promise.all([db.close(), direct.close()])));
    let hints = 0;
    db.listen('bell', () => void (hints += 1));
    const isHeard = async (): Promise<boolean> => {
      const before = hints;
      await direct.query('notify bell');
      await direct.query('select 1');
      return hints > before;
    };
    await until(isHeard);
    proxy.freeze();
    // The first hint covers what was missed, the second is a notification.
    await until(isHeard);
    await until(isHeard);
  });
});

describe('close()', () => {
  it('ends when the server has stopped answering, with idle connections and a listening one', async () => {
    const proxy = await TcpProxy.to(server.url);
    const url = proxy.url(server.url);
    const db = await PgDatabase.open({ url, poolSize: 2, queryTimeoutMs: 30_000 });
    try {
      await new Promise<void>(resolve => void db.listen('somewhere', resolve));
      await db.query('select 1');
      proxy.silence();
      await db.close();
    } finally {
      await proxy.close();
    }
  });
});
