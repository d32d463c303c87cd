import { setImmediate as nextTurn } from 'node:timers/promises';
import { Client, Pool, type PoolClient } from 'pg';
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from 'vitest';
import { fromPg } from '../../src/adapters/transactions/pg.ts';
import type { TransactionAdapter } from '../../src/outbox/transaction-adapter.ts';
import { task } from '../../src/task/define-task.ts';
import { unchecked } from '../../src/task/standard-schema.ts';
import { createOutlast } from '../../src/app/create-outlast.ts';
import type { Outlast, SqlTransaction } from '../../src/app/outlast.ts';
import {
  migratedDatabase,
  migratedMariadb,
  type MigratedDatabase,
  type MigratedMariadb,
} from '../support/database.ts';
import { DRIVERS, type Driver, type DriverConnection } from '../support/mysql-drivers.ts';

const nightly = task('outside.nightly');
const REFUSED = { code: 'ERR_NOT_IN_TRANSACTION' };

/** An adapter of a user that does not know about transactions. */
const blind = <Tx>(adapter: TransactionAdapter<Tx>): TransactionAdapter<Tx> => ({
  dialect: adapter.dialect,
  endsIdleTransactions: adapter.endsIdleTransactions,
  execute: (tx, text, values) => adapter.execute(tx, text, values),
  transaction: (fn, leave) => adapter.transaction(fn, leave),
  status: () => 'unknown',
});

describe('PostgreSQL refuses a send, and writes no row,', () => {
  let database: MigratedDatabase;
  let pool: Pool;
  let outlast: Outlast<PoolClient>;
  let viaBlind: Outlast<PoolClient>;
  let outlastOwn: Outlast;

  beforeAll(async () => {
    database = await migratedDatabase('outside');
    pool = database.pool;
    outlastOwn = createOutlast({ database: database.url });
    outlast = createOutlast({ database: database.url, adapter: fromPg(pool) });
    viaBlind = outlast.via(blind(fromPg(pool)));
  });

  afterAll(async () => {
    await outlast.close();
    await outlastOwn.close();
    await database.dispose();
  });

  const count = async (): Promise<number> =>
    (await pool.query('select 1 from outlast_outbox union all select 1 from outlast_task'))
      .rowCount ?? 0;

  async function refused(sending: Promise<unknown>): Promise<void> {
    await expect(sending).rejects.toMatchObject(REFUSED);
    expect(await count()).toBe(0);
  }

  const connect = async (): Promise<PoolClient> => {
    const client = await pool.connect();
    onTestFinished(() => client.release());
    return client;
  };

  it('through a pool, also while another client of it is in a transaction', async () => {
    const asClient = pool as unknown as PoolClient;
    const inside = await connect();
    await inside.query('BEGIN');
    for (const sender of [outlast, viaBlind]) {
      await refused(sender.send(asClient, nightly));
      await refused(sender.sendMany(asClient, [nightly.with(), nightly.with()]));
      await refused(sender.send(asClient, nightly, undefined, { id: 'chosen' }));
      await refused(sender.send(asClient, nightly, undefined, { idempotencyKey: 'k' }));
    }
    await inside.query('ROLLBACK');
  });

  it('through any other pool of pg, also where strict is off', async () => {
    const other = new Pool({ connectionString: database.url, max: 1 });
    const lenient = createOutlast({ database: database.url, adapter: fromPg(pool), strict: false });
    onTestFinished(async () => {
      await lenient.close();
      await other.end();
    });
    await refused(outlast.send(other as unknown as PoolClient, nightly));
    await refused(lenient.send(pool as unknown as PoolClient, nightly));
  });

  it('through an object that looks like a client and is a pool behind it', async () => {
    const query = (text: string, values?: unknown[]) => pool.query(text, values);
    await refused(outlast.send({ query } as unknown as PoolClient, nightly));
  });

  it('on a client before BEGIN, after COMMIT and after ROLLBACK', async () => {
    for (const sender of [outlast, viaBlind]) {
      const client = await connect();
      await refused(sender.send(client, nightly));
      for (const end of ['COMMIT', 'ROLLBACK']) {
        await client.query('BEGIN');
        await client.query(end);
        await refused(sender.send(client, nightly));
      }
    }
  });

  it.each(['rollback', '/* over */ rollback', 'select 1; rollback', '-- over\ncommit'])(
    'behind %j that was not awaited',
    async text => {
      const client = await connect();
      await client.query('BEGIN');
      const ending = client.query(text);
      await refused(outlast.send(client, nightly));
      await ending;
    },
  );

  it.each(['rollback', 'commit', 'select 1; end'])(
    'in a transaction of our own after %j, and accepts one that the caller begins after it',
    async text => {
      const own = createOutlast({ database: database.url });
      onTestFinished(() => own.close());
      const sendAfter = (...texts: string[]): Promise<unknown> =>
        own.transaction(async tx => {
          for (const one of texts) await tx.query(one);
          await own.send(tx, nightly);
          await tx.query('rollback');
        });
      await refused(sendAfter(text));
      await sendAfter(text, 'begin');
      expect(await count()).toBe(0);
    },
  );

  it('that began before a ROLLBACK and was the first one of its client', async () => {
    const client = await connect();
    await client.query('BEGIN');
    // The first send of an instance finds out that the transaction has ended.
    const sending = outlast.send(client, nightly).catch((error: unknown) => error);
    await client.query('ROLLBACK');
    await sending;
    expect(await count()).toBe(0);
  });

  it.each(DELAYS)('that is not awaited before a ROLLBACK %i turns later', async turns => {
    const fresh = createOutlast({ database: database.url, adapter: fromPg(pool) });
    onTestFinished(() => fresh.close());
    // The second one comes when the first has loaded the dialect, or not.
    for (const options of [{}, { idempotencyKey: 'k' }, { orderingKey: 'o' }]) {
      const client = await pool.connect();
      await client.query('BEGIN');
      const sending = fresh.send(client, nightly, undefined, options).catch(() => undefined);
      await later(turns);
      await client.query('ROLLBACK');
      await sending;
      client.release();
      expect(await count()).toBe(0);
    }
  });

  it.each(DELAYS)(
    'that is not awaited before a ROLLBACK %i turns later, and joins no later transaction of its connection',
    async turns => {
      for (const ends of [['ROLLBACK', 'BEGIN'], ['ROLLBACK AND CHAIN']])
        for (const how of BATCHES) {
          // Compares databases with its first send.
          const fresh = createOutlast({ database: database.url, adapter: fromPg(pool) });
          await later(20);
          for (const sender of [fresh, outlast]) {
            const client = await pool.connect();
            await client.query('BEGIN');
            const sending = how(sender, client).catch(() => undefined);
            await later(turns);
            for (const end of ends) await client.query(end);
            await client.query('select 1');
            await client.query('COMMIT');
            await sending;
            client.release();
            expect(await count()).toBe(0);
          }
          await fresh.close();
        }
    },
  );

  it('that is not awaited between a ROLLBACK TO and a ROLLBACK that are not awaited either', async () => {
    for (let turns = 0; turns < 40; turns += 1) {
      const client = await pool.connect();
      await client.query('BEGIN; savepoint s');
      const back = client.query('ROLLBACK TO s');
      const sending = outlast.send(client, nightly).catch(() => undefined);
      await later(turns);
      await Promise.all([back, client.query('ROLLBACK'), sending]);
      client.release();
      expect(await count(), `after ${turns} turns`).toBe(0);
    }
  });

  it.each(DELAYS)('of our own that is not awaited before a throw %i turns later', async turns => {
    await abandoned(outlastOwn, turns);
    expect(await count()).toBe(0);
  });

  it('and accepts one in a transaction, also beside other statements and after ROLLBACK TO', async () => {
    const lone = new Client(database.url);
    await lone.connect();
    onTestFinished(() => lone.end());
    for (const sender of [outlast, viaBlind]) {
      await lone.query('BEGIN');
      await lone.query('SAVEPOINT a');
      await Promise.all([
        lone.query('rollback to a'),
        sender.send(lone as unknown as PoolClient, nightly),
      ]);
      expect((await lone.query('select 1 from outlast_task')).rowCount).toBe(1);
      await lone.query('ROLLBACK');
    }
    expect(await count()).toBe(0);
  });

  it('and reports that a failed transaction has failed', async () => {
    const client = await connect();
    await client.query('BEGIN');
    await client.query('select * from nowhere').catch(() => undefined);
    await refused(viaBlind.send(client, nightly));
    await client.query('ROLLBACK');
  });
});

/** At these numbers of turns of the event loop, or of promises (negative), a send is at each of its statements. */
const DELAYS = [0, -4, -16, 1, 2, 5];

async function later(turns: number): Promise<void> {
  for (let turn = 0; turn > turns; turn--) await Promise.resolve();
  for (let turn = 0; turn < turns; turn++) await nextTurn();
}

/** Sends that one statement writes, and sends that take several. */
const BATCHES: readonly (<Tx>(outlast: Outlast<Tx>, tx: Tx) => Promise<unknown>)[] = [
  (outlast, tx) => outlast.send(tx, nightly),
  (outlast, tx) => outlast.send(tx, nightly, undefined, { idempotencyKey: 'k' }),
  (outlast, tx) => outlast.send(tx, nightly, undefined, { orderingKey: 'o', id: 'chosen' }),
  (outlast, tx) =>
    outlast.sendMany(
      tx,
      [1, 2].map(n => late.with(n, { id: `chosen-${n}` })),
    ),
];

/** A transaction of our own whose `send` is not awaited, and which then throws. */
async function abandoned(outlast: Outlast, turns: number): Promise<void> {
  let sending: Promise<unknown> = Promise.resolve();
  const transaction = outlast.transaction(async tx => {
    sending = outlast.send(tx, nightly, undefined, { idempotencyKey: 'k' }).catch(() => undefined);
    await later(turns);
    throw new Error('rolled back');
  });
  await expect(transaction).rejects.toThrow('rolled back');
  await sending;
}

const late = task('outside.late', { input: unchecked<number>() });

describe.each(Object.entries(DRIVERS))('%s refuses a send, and writes no row,', (_, open) => {
  let database: MigratedMariadb;
  let driver: Driver;
  let outlast: Outlast<DriverConnection>;
  let viaBlind: Outlast<DriverConnection>;
  let own: Outlast;

  beforeAll(async () => {
    database = await migratedMariadb('outside');
    driver = open(database.url);
    outlast = createOutlast({ ...config(), adapter: driver.adapter });
    viaBlind = outlast.via(blind(driver.adapter));
    own = createOutlast(config());
  });

  afterAll(async () => {
    await outlast.close();
    await own.close();
    await driver.close();
    await database.dispose();
  });

  const config = () => ({
    database: 'postgres://nobody@127.0.0.1:1/none',
    outboxes: { crm: { database: database.url } },
    outbox: 'crm',
  });

  const count = async (): Promise<number> =>
    ((await database.pool.query('select 1 from outlast_outbox'))[0] as unknown[]).length;

  const countKeys = async (): Promise<number> =>
    ((await database.pool.query('select 1 from outlast_send_key'))[0] as unknown[]).length;

  async function refused(sending: Promise<unknown>): Promise<void> {
    await expect(sending).rejects.toMatchObject(REFUSED);
    expect(await count()).toBe(0);
  }

  const connect = async (): Promise<DriverConnection> => {
    const connection = await driver.connect();
    onTestFinished(async () => await connection.release());
    return connection;
  };

  it('through a pool', async () => {
    for (const sender of [outlast, viaBlind]) {
      await refused(sender.send(driver.pool, nightly));
      await refused(sender.sendMany(driver.pool, [late.with(1), late.with(2)]));
    }
    const lenient = createOutlast({ ...config(), adapter: driver.adapter, strict: false });
    onTestFinished(() => lenient.close());
    await refused(lenient.send(driver.pool, nightly));
  });

  it('behind a ROLLBACK that was not awaited', async () => {
    const connection = await connect();
    await connection.beginTransaction();
    await driver.run(connection, 'select 1');
    const ending = connection.rollback();
    await refused(outlast.send(connection, nightly));
    await ending;
  });

  it.each(DELAYS)('that is not awaited before a rollback %i turns later', async turns => {
    for (const options of [{}, { idempotencyKey: 'k' }, { orderingKey: 'o' }]) {
      const connection = await driver.connect();
      await connection.beginTransaction();
      const sending = outlast.send(connection, nightly, undefined, options).catch(() => undefined);
      await later(turns);
      await connection.rollback();
      await sending;
      // The next user of the connection can write.
      await connection.beginTransaction();
      await driver.run(
        connection,
        "insert into outlast_send_key values ('x', 'x', 'x', 'x', now())",
      );
      await connection.rollback();
      await connection.release();
      expect(await count()).toBe(0);
      expect(await countKeys()).toBe(0);
    }
  });

  it.each(DELAYS)(
    'that is not awaited before a rollback %i turns later, and joins no later transaction of its connection',
    async turns => {
      const begin = 'start transaction';
      for (const [before, after] of [
        [[begin], ['rollback', begin]],
        [[begin], ['rollback and chain']],
        [['set autocommit = 0'], ['rollback']],
        [['set autocommit = 0', 'select 1 from outlast_outbox'], ['rollback']],
        [["xa start 'x'"], ["xa end 'x'", "xa rollback 'x'", begin]],
      ] as const)
        for (const how of BATCHES) {
          const fresh = createOutlast({ ...config(), adapter: driver.adapter });
          await later(20);
          for (const sender of [fresh, outlast]) {
            const connection = await driver.connect();
            for (const sql of before) await driver.run(connection, sql);
            const sending = how(sender, connection).catch(() => undefined);
            await later(turns);
            for (const sql of after) await driver.run(connection, sql);
            await driver.run(connection, 'do 0');
            await connection.commit();
            await sending;
            await connection.rollback();
            await driver.run(connection, 'set autocommit = 1');
            await connection.release();
            expect(
              [await count(), await countKeys()],
              `after ${[...before, ...after].join()}`,
            ).toEqual([0, 0]);
          }
          await fresh.close();
        }
    },
  );

  it.each(DELAYS)('of our own that is not awaited before a throw %i turns later', async turns => {
    await abandoned(own, turns);
    expect(await count()).toBe(0);
    expect(await countKeys()).toBe(0);
  });

  it('on a connection with autocommit, and after the end of a transaction', async () => {
    for (const sender of [outlast, viaBlind]) {
      const connection = await connect();
      await refused(sender.send(connection, nightly));
      await connection.beginTransaction();
      await connection.commit();
      await refused(sender.send(connection, nightly));
      await connection.beginTransaction();
      await connection.rollback();
      await refused(sender.send(connection, nightly));
    }
  });

  it('after a statement that committed the transaction implicitly', async () => {
    const createTable = 'create table if not exists commits_by_itself (id int)';
    const sendAfter = async (sender: Outlast<DriverConnection>): Promise<unknown> =>
      await sender.transaction(async tx => {
        await driver.run(tx, createTable);
        await sender.send(tx, nightly);
      });
    await refused(sendAfter(outlast));
    await refused(sendAfter(viaBlind));
    const sendOwn = own.transaction(async (tx: SqlTransaction) => {
      await tx.query(createTable);
      await own.send(tx, nightly);
    });
    await refused(sendOwn);
  });

  it('and accepts one in a transaction, or without autocommit', async () => {
    for (const sender of [outlast, viaBlind]) {
      const connection = await connect();
      await connection.beginTransaction();
      await sender.send(connection, nightly);
      await connection.rollback();
      await driver.run(connection, 'set autocommit = 0');
      await sender.send(connection, nightly);
      await connection.rollback();
      await driver.run(connection, 'set autocommit = 1');
    }
    expect(await count()).toBe(0);
  });
});
