import { createConnection, type Connection } from 'mysql2/promise';
import { afterAll, beforeAll, beforeEach, describe, expect, it, onTestFinished } from 'vitest';
import { gate, until } from '../../../test/support/database.ts';
import { withMariadb, type TestDatabase } from '../../../test/support/servers.ts';
import { TcpProxy } from '../../../test/support/tcp-proxy.ts';
import { migrate } from './migrate.ts';
import { MysqlDatabase, type MysqlSession } from './mysql-database.ts';
import { MysqlOutboxStore } from './mysql-outbox-store.ts';
import { SQL } from './sql.generated.ts';
import { bind, bindRows, type MysqlStatement } from './statement.ts';

let server: TestDatabase;
let db: MysqlDatabase;

beforeAll(async () => {
  server = await withMariadb('mysql_database');
  db = await MysqlDatabase.open({ url: server.url, poolSize: 5, queryTimeoutMs: 30_000 });
  await migrate(db);
  await db.query('create table account (id int primary key, cents int not null) engine = InnoDB');
});

afterAll(async () => {
  await db.close();
  await server.drop();
});

beforeEach(async () => {
  await db.query('delete from account');
  await db.query('insert into account values (1, 0), (2, 0)');
  await db.query('delete from outlast_outbox');
});

const statement = (text: string): MysqlStatement => ({ text, order: [] });

async function foreign(): Promise<Connection> {
  const connection = await createConnection(server.url);
  onTestFinished(() => connection.destroy());
  return connection;
}

/** Rows of the outbox, due this many seconds ago. */
async function write(name: string, count: number, secondsAgo: number): Promise<void> {
  const etaMs = String(Date.now() - secondsAgo * 1_000);
  const bytes = [1, 2, 3, 4].map(() => Buffer.from('{}').toString('base64'));
  const rest = [null, null, null, '0', null, null];
  const rows = Array.from({ length: count }, (_, n) => [
    `${name}${n + 1}`,
    'some',
    'default',
    '0',
    ...bytes,
    'digest',
    '1',
    '1',
    etaMs,
    ...rest,
  ]);
  const { text, values } = bindRows<string | null>(SQL.enqueue, rows);
  await db.query(text, values);
}

describe('a session of Outlast', () => {
  it('sets its isolation level and timeouts, whatever the defaults of the server are', async () => {
    const [row] = await db.query(
      `select @@tx_isolation as isolation, @@autocommit as autocommit, @@innodb_lock_wait_timeout as lock_wait,
         @@lock_wait_timeout as table_wait, @@max_statement_time as statement, @@idle_transaction_timeout as idle,
         @@sql_mode as mode`,
    );
    expect(row?.['isolation']).toBe('READ-COMMITTED');
    const limits = [
      row?.['autocommit'],
      row?.['lock_wait'],
      row?.['table_wait'],
      row?.['statement'],
      row?.['idle'],
    ];
    expect(limits.map(Number)).toEqual([1, 10, 30, 30, 10]);
    expect(String(row?.['mode'])).toContain('STRICT_ALL_TABLES');
    expect(String(row?.['mode'])).not.toContain('NO_BACKSLASH_ESCAPES');
  });

  it('is closed when a statement times out, and the next statement gets a new session', async () => {
    const shortTimeout = await MysqlDatabase.open({
      url: server.url,
      poolSize: 1,
      queryTimeoutMs: 3_000,
    });
    onTestFinished(() => shortTimeout.close());
    await expect(shortTimeout.query('select sleep(20)')).rejects.toMatchObject({
      code: 'ERR_STORE_UNAVAILABLE',
    });
    expect(await shortTimeout.query('select 1 as n')).toEqual([{ n: 1 }]);
  });

  it('fails with ERR_STORE_UNAVAILABLE when all connections stay in use, and the next call works', async () => {
    const [held, goesOn] = [gate(), gate()];
    const options = { url: server.url, poolSize: 1 };
    const small = await MysqlDatabase.open({ ...options, queryTimeoutMs: 4_000 });
    onTestFinished(() => small.close());
    const holding = small.transaction(async () => {
      held.open();
      await goesOn.opened;
    });
    await held.opened;
    await expect(small.query('select 1')).rejects.toMatchObject({ code: 'ERR_STORE_UNAVAILABLE' });
    goesOn.open();
    await holding;
    expect(await until(() => small.query('select 1 as n').catch(() => null))).toEqual([{ n: 1 }]);
  });

  it('fails with ERR_STORE_UNAVAILABLE when the server kills it, and the next call works', async () => {
    const killer = await foreign();
    const killed = db.transaction(async tx => {
      const [row] = await tx.query('select connection_id() as id');
      await tx.query('update account set cents = 1 where id = 1');
      await killer.query(`kill ${String(row?.['id'])}`);
      await tx.query('update account set cents = 1 where id = 2');
    });
    await expect(killed).rejects.toMatchObject({ code: 'ERR_STORE_UNAVAILABLE' });
    expect(await db.query('select sum(cents) as cents from account')).toEqual([{ cents: '0' }]);
  });
});

describe('a server that stops answering', () => {
  async function proxied(): Promise<{ readonly proxy: TcpProxy; readonly behind: MysqlDatabase }> {
    const proxy = await TcpProxy.to(server.url);
    onTestFinished(() => proxy.close());
    const url = proxy.url(server.url);
    const behind = await MysqlDatabase.open({ url, poolSize: 1, queryTimeoutMs: 300 });
    return { proxy, behind };
  }

  it.each(['a statement', 'COMMIT', 'ROLLBACK', 'BEGIN'])(
    'fails the transaction (at %s), and the next call uses a new connection',
    async at => {
      const { proxy, behind } = await proxied();
      const failed = new Error('its own');
      const change = (sql: string, session: MysqlSession): Promise<number> =>
        session.change(statement(sql));
      if (at === 'BEGIN') proxy.silence();
      const ended = behind.atomically(async session => {
        await change('update account set cents = 1 where id = 1', session);
        proxy.silence();
        if (at === 'ROLLBACK') throw failed;
        if (at === 'a statement')
          await change('update account set cents = 1 where id = 2', session);
      });
      if (at === 'ROLLBACK') await expect(ended).rejects.toBe(failed);
      else await expect(ended).rejects.toMatchObject({ code: 'ERR_STORE_UNAVAILABLE' });
      proxy.speak();
      expect(await behind.query('select sum(cents) as cents from account')).toEqual([
        { cents: '0' },
      ]);
      await behind.close();
    },
  );

  it('does not block close()', async () => {
    const proxy = await TcpProxy.to(server.url);
    onTestFinished(() => proxy.close());
    const url = proxy.url(server.url);
    const behind = await MysqlDatabase.open({ url, poolSize: 1, queryTimeoutMs: 600_000 });
    const underWay = gate();
    const asking = behind.transaction(async tx => {
      await tx.query('select 1');
      proxy.silence();
      const answer = tx.query('select 2');
      underWay.open();
      await answer;
    });
    const failing = expect(asking).rejects.toMatchObject({ code: 'ERR_STORE_UNAVAILABLE' });
    await underWay.opened;
    await Promise.all([behind.close(), failing]);
  });
});

describe('a short transaction', () => {
  it('is repeated as a whole after a deadlock, and both transactions commit', async () => {
    let waiting = 0;
    let open: () => void = () => undefined;
    const bothIn = new Promise<void>(resolve => (open = resolve));
    let starts = 0;
    const cross = (first: number, second: number) => async (session: MysqlSession) => {
      starts += 1;
      await session.change(statement(`update account set cents = cents + 1 where id = ${first}`));
      waiting += 1;
      if (waiting === 2) open();
      await bothIn;
      await session.change(statement(`update account set cents = cents + 1 where id = ${second}`));
    };
    await Promise.all([db.atomically(cross(1, 2)), db.atomically(cross(2, 1))]);
    expect(starts).toBe(3);
    expect(await db.query('select cents from account')).toEqual([{ cents: 2 }, { cents: 2 }]);
  });

  it('is repeated once after a lock wait timeout, then fails', async () => {
    const holder = await foreign();
    await holder.beginTransaction();
    await holder.query('update account set cents = 5 where id = 1');
    let starts = 0;
    const take = async (session: MysqlSession): Promise<void> => {
      starts += 1;
      await session.change(statement('set session innodb_lock_wait_timeout = 1'));
      await session.change(statement('update account set cents = cents + 1 where id = 1'));
    };
    await expect(db.atomically(take)).rejects.toMatchObject({ code: 'ERR_STORE_UNAVAILABLE' });
    expect(starts).toBe(2);
    await holder.rollback();
    await db.atomically(take);
    expect(await db.query('select cents from account where id = 1')).toEqual([{ cents: 1 }]);
  });

  it('is never repeated when it belongs to the user', async () => {
    let starts = 0;
    const failing = db.transaction(async tx => {
      starts += 1;
      await tx.query(`signal sqlstate '40001' set mysql_errno = 1213, message_text = 'deadlock'`);
    });
    await expect(failing).rejects.toMatchObject({ code: 'ERR_STORE_UNAVAILABLE' });
    expect(starts).toBe(1);
  });
});

describe('a claim', () => {
  const claim = (store: MysqlOutboxStore, token: string, limit = 100): Promise<readonly string[]> =>
    store
      .claim({ relay: 'relay', token, limit, staleMs: 60_000 })
      .then(rows => rows.map(({ envelope }) => envelope.id));

  it('skips rows that a stopped process has locked', async () => {
    await write('row-', 3, 10);
    const stopped = await foreign();
    await stopped.beginTransaction();
    await stopped.query(`select id from outlast_outbox where task_id = 'row-2' for update`);
    const store = new MysqlOutboxStore(db);
    await store.beat('relay', 60_000);
    expect(await claim(store, 'token')).toEqual(['row-1', 'row-3']);
  });

  it('takes no row of an ordering key whose first row is locked', async () => {
    await write('ordered-', 2, 10);
    await db.query(`update outlast_outbox set ordering_key = 'key'`);
    const stopped = await foreign();
    await stopped.beginTransaction();
    await stopped.query(`select id from outlast_outbox where task_id = 'ordered-1' for update`);
    const store = new MysqlOutboxStore(db);
    await store.beat('relay', 60_000);
    expect(await claim(store, 'token')).toEqual([]);
    await stopped.rollback();
    expect(await claim(store, 'token')).toEqual(['ordered-1']);
  });

  it('locks the rows it takes and no gap between them, so that senders do not wait for it', async () => {
    await write('row-', 3, 10);
    const relay = await foreign();
    await relay.query(SQL.setIsolation.text);
    await relay.beginTransaction();
    const { text, values } = bind<number | null>(SQL.claim, [100, 2, null]);
    const [rows] = await relay.query(text, [...values]);
    expect(rows).toHaveLength(3);
    const sender = await foreign();
    await sender.query('set session innodb_lock_wait_timeout = 1');
    await sender.beginTransaction();
    for (const secondsAgo of [5, 15]) {
      await sender.query(
        `insert into outlast_outbox (task_id, task_name, queue, priority, args, kwargs, embed, options, digest, schema_version,
           payload_version, available_at, error_history, created_at, updated_at)
         values ('sent-${secondsAgo}', 't', 'q', 0, '', '', '', '', '', 1, 1,
           utc_timestamp(6) - interval ${secondsAgo} second, '', utc_timestamp(6), utc_timestamp(6))`,
      );
    }
    await sender.commit();
    await relay.rollback();
  });

  it('finds rows that were committed late or released, although it scans from a remembered position', async () => {
    // The clock stands still, so that time triggers no scan from the beginning.
    const store = new MysqlOutboxStore(db, () => 0);
    await store.beat('relay', 600_000);
    await write('early-', 1, 0);
    expect(await claim(store, 't1')).toEqual(['early-1']);
    // As if its transaction had begun an hour before the one whose row was claimed already.
    await write('late-', 1, 3_600);
    expect(await claim(store, 't2')).toEqual(['late-1']);
    await write('later-', 1, 0);
    await store.release('t2');
    expect((await claim(store, 't3')).toSorted()).toEqual(['late-1', 'later-1']);
  });

  it('starts where the last one ended, so that it does not scan deleted rows again', async () => {
    const store = new MysqlOutboxStore(db, () => 0);
    await store.beat('relay', 600_000);
    await write('now-', 2, 0);
    expect(await claim(store, 't1', 1)).toEqual(['now-1']);
    await write('before-', 1, 3_600);
    // A scan from the beginning would return the older row first.
    expect(await claim(store, 't2', 1)).toEqual(['now-2']);
  });
});
