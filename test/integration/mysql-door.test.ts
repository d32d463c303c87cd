import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { MysqlFences } from '../../src/adapters/mysql/mysql-fences.ts';
import { noFaults } from '../../src/runtime/runtime.ts';
import { EffectOnceDoor } from '../../src/worker/effects/effect-once-door.ts';
import { LedgerDriver } from '../conformance/ledger-driver.ts';
import { migratedMariadb, until, type MigratedMariadb } from '../support/database.ts';
import { makeLedger } from '../support/memory-ledger.ts';
import { DRIVERS, type Driver, type DriverConnection } from '../support/mysql-drivers.ts';

let database: MigratedMariadb;
beforeAll(async () => {
  database = await migratedMariadb('door');
});
afterAll(() => database.dispose());

describe.each(Object.entries(DRIVERS))('the door through %s', (_, open) => {
  let driver: Driver;
  beforeAll(() => {
    // One connection: anything left behind in its session affects the next query.
    driver = open(database.url, 1);
  });
  afterAll(() => driver.close());

  const setup = async () => {
    const ledger = new LedgerDriver(await makeLedger());
    const fences = new MysqlFences(driver.adapter);
    const door = new EffectOnceDoor({ fences, ledger: ledger.ledger, faultPoint: noFaults });
    return { ledger, door, ...(await ledger.running()) };
  };
  const limits = async (tx: DriverConnection): Promise<unknown> =>
    await driver.run(
      tx,
      'select cast(@@session.innodb_lock_wait_timeout as char), cast(@@session.wait_timeout as char), if(@@session.autocommit, "1", "0")',
    );
  const outside = async (): Promise<unknown> => await driver.adapter.transaction(limits);

  it('limits idle transactions, waits for locks as the user configured, and restores the session', async () => {
    const before = (await outside()) as readonly [readonly [string, string, string]];
    const [lockWait] = before[0];
    const { ledger, door, task } = await setup();
    let inside: unknown;
    await door.pass(task, 'main', async tx => {
      inside = await limits(tx);
      return null;
    });
    expect(inside).toEqual([[lockWait, '10', '0']]);
    expect(await outside()).toEqual(before);
    const failing = door.pass(task, 'other', () => Promise.reject(new Error('no')));
    await expect(failing).rejects.toThrow('no');
    expect(await outside()).toEqual(before);
    await ledger.release(task);
    await expect(door.pass(task, 'late', async () => null)).rejects.toMatchObject({
      code: 'ERR_FENCE_STALE',
    });
    expect(await outside()).toEqual(before);
  });

  it('waits for its fence no longer than 5 s, and then reports that the store is busy', async () => {
    const { door, task } = await setup();
    await door.fence(task);
    const before = await outside();
    const holder = await database.pool.getConnection();
    await holder.beginTransaction();
    await holder.query('select 1 from outlast_fence where task_id = ? for update', [task.id]);
    await expect(door.pass(task, 'main', async () => null)).rejects.toMatchObject({
      code: 'ERR_STORE_UNAVAILABLE',
      message: expect.stringContaining('fence') as string,
    });
    await holder.rollback();
    holder.release();
    expect(await outside()).toEqual(before);
  });

  it('reports that the store is unavailable when the server has ended its session', async () => {
    const { door, task } = await setup();
    const cut = door.pass(task, 'main', async tx => {
      const [[id]] = (await driver.run(tx, 'select connection_id()')) as [[number | bigint]];
      await database.pool.query(`kill ${id}`);
      return null;
    });
    await expect(cut).rejects.toMatchObject({ code: 'ERR_STORE_UNAVAILABLE' });
    expect(await door.pass(task, 'main', async () => Uint8Array.from([1]))).toHaveLength(1);
  });

  it('rolls everything back, with an error, when the function swallows a deadlock that ended its transaction', async () => {
    const { door, task } = await setup();
    const { pool } = database;
    await pool.query('create or replace table crossed (id int primary key, n int) engine=innodb');
    await pool.query('create or replace table paid (n int) engine=innodb');
    await pool.query('insert into crossed values (1, 0), (2, 0)');
    const other = await pool.getConnection();
    await other.beginTransaction();
    // Of two transactions the server ends the one that has changed less.
    await other.query('insert into crossed select seq, 0 from seq_100_to_200');
    await other.query('update crossed set n = 1 where id = 1');
    const passing = door.pass(task, 'main', async tx => {
      await driver.run(tx, 'update crossed set n = 1 where id = 2');
      const crossing = other.query('update crossed set n = 1 where id = 2');
      const waiting = `select 1 from information_schema.innodb_trx where trx_state = 'LOCK WAIT'`;
      await until(async () => ((await pool.query(waiting))[0] as unknown[]).length);
      await expect(driver.run(tx, 'update crossed set n = 1 where id = 1')).rejects.toThrow(
        'Deadlock',
      );
      await crossing;
      await other.commit();
      await driver.run(tx, 'insert into paid values (1)');
      return null;
    });
    await expect(passing).rejects.toMatchObject({ code: 'ERR_NOT_IN_TRANSACTION' });
    other.release();
    expect((await pool.query('select * from paid'))[0]).toEqual([]);
    let runs = 0;
    await door.pass(task, 'main', async () => {
      runs += 1;
      return null;
    });
    expect(runs).toBe(1);
  });

  it('refuses a value that is too large for the server, and accepts a large one', async () => {
    const { door, task } = await setup();
    const value = (bytes: number) => async () => new Uint8Array(bytes).fill(7);
    await expect(door.pass(task, 'main', value(16_000_000))).rejects.toMatchObject({
      code: 'ERR_PAYLOAD_TOO_LARGE',
    });
    const large = await door.pass(task, 'main', value(500_000));
    const never = (): Promise<never> => Promise.reject(new Error('ran again'));
    const again = await door.pass(task, 'main', never);
    expect(Buffer.from(again ?? []).equals(large ?? Buffer.alloc(0))).toBe(true);
  });
});
