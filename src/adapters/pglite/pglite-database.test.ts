import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { Clock } from '../../runtime/runtime.ts';
import { openPGliteDatabase, type PGliteDatabase } from './pglite-database.ts';

/** Only the transaction limit uses time here, and the test moves it. */
class ManualClock implements Clock {
  readonly #timers = new Set<() => void>();
  now = (): number => 0;
  monotonic = (): number => 0;
  timer = (_ms: number, fn: () => void): (() => void) => {
    this.#timers.add(fn);
    return () => this.#timers.delete(fn);
  };
  fireAll(): void {
    for (const fn of this.#timers) fn();
  }
}

describe('a PGlite database', () => {
  const clock = new ManualClock();
  let db: PGliteDatabase;
  let tables = 0;

  beforeAll(async () => {
    db = await openPGliteDatabase({ memory: true }, { clock });
  });
  afterAll(async () => {
    await db.close();
  });

  async function createTable(): Promise<string> {
    const table = `t${++tables}`;
    await db.query(`create table ${table} (id int primary key)`);
    return table;
  }

  async function idsOf(table: string): Promise<unknown[]> {
    const rows = await db.query(`select id from ${table} order by id`, []);
    return rows.map(row => row['id']);
  }

  it('reads int8 as text, beyond 2^53 and in arrays too', async () => {
    const [row] = await db.query(
      `select 1::int8 as small, 9223372036854775807::int8 as large, null::int8 as none,
              array[1, null, -9007199254740993]::int8[] as many, count(*) as counted, 7 as int4`,
    );
    expect(row).toEqual({
      small: '1',
      large: '9223372036854775807',
      none: null,
      many: ['1', null, '-9007199254740993'],
      counted: '1',
      int4: 7,
    });
  });

  it('keeps every byte value of a bytea', async () => {
    const bytes = Uint8Array.from({ length: 256 }, (_, i) => i);
    const [row] = await db.query('select $1::bytea as bytes, $2::bytea as text', [
      bytes,
      '\\x00ff',
    ]);
    expect(row?.['bytes']).toStrictEqual(bytes);
    expect(row?.['text']).toStrictEqual(Uint8Array.of(0, 255));
  });

  it('reads a bytea in both formats of bytea_output', async () => {
    const bytes = Uint8Array.from({ length: 256 }, (_, i) => i);
    const read = await db.transaction(async tx => {
      await tx.query('set local bytea_output = escape');
      return await tx.query('select $1::bytea as bytes', [bytes]);
    });
    expect(read[0]?.['bytes']).toStrictEqual(bytes);
  });

  it('takes arrays of text and bytea with nulls through unnest', async () => {
    const texts = ['plain', null, 'a"b\\c,{d} NULL', ''];
    const bytes = [Uint8Array.of(0, 255), Buffer.from('x'), null, new Uint8Array()];
    const rows = await db.query('select * from unnest($1::text[], $2::bytea[]) as u(a, b)', [
      texts,
      bytes,
    ]);
    expect(rows.map(row => row['a'])).toEqual(texts);
    expect(rows.map(row => row['b'])).toEqual([
      Uint8Array.of(0, 255),
      Uint8Array.of(120),
      null,
      new Uint8Array(),
    ]);
  });

  it('takes arrays of numbers and booleans, and empty ones', async () => {
    const [row] = await db.query('select $1::int8[] as a, $2::boolean[] as b, $3::text[] as c', [
      ['9007199254740993', 2, null],
      [true, false, null],
      [],
    ]);
    expect(row).toEqual({ a: ['9007199254740993', '2', null], b: [true, false, null], c: [] });
  });

  it('runs several commands without parameters and returns the rows of the last', async () => {
    const table = await createTable();
    const rows = await db.query(
      `insert into ${table} values (1); insert into ${table} values (2); select id from ${table};`,
    );
    expect(rows).toEqual([{ id: 1 }, { id: 2 }]);
  });

  it('rolls back all of several commands when one fails', async () => {
    const table = await createTable();
    const both = db.query(`insert into ${table} values (1); insert into ${table} values (1);`);
    await expect(both).rejects.toMatchObject({ code: '23505' });
    expect(await idsOf(table)).toEqual([]);
  });

  it('commits when the function returns, and returns its value', async () => {
    const table = await createTable();
    const value = await db.transaction(async tx => {
      await tx.query(`insert into ${table} values ($1)`, [1]);
      return 'done';
    });
    expect(value).toBe('done');
    expect(await idsOf(table)).toEqual([1]);
  });

  it('rolls back when the function throws, and rethrows the same error', async () => {
    const table = await createTable();
    const error = new Error('mine');
    const failing = db.transaction(async tx => {
      await tx.query(`insert into ${table} values (1)`);
      throw error;
    });
    await expect(failing).rejects.toBe(error);
    expect(await idsOf(table)).toEqual([]);
  });

  it('makes other queries wait for an open transaction, and does not roll them back with it', async () => {
    const table = await createTable();
    const order: string[] = [];
    let outer: Promise<unknown> = Promise.resolve();
    const failing = db.transaction(async tx => {
      await tx.query(`insert into ${table} values (1)`);
      outer = db.query(`insert into ${table} values (2)`).then(() => order.push('outer'));
      await tx.query('select 1');
      order.push('rolled back');
      throw new Error('roll back');
    });
    await expect(failing).rejects.toThrow('roll back');
    await outer;
    expect(order).toEqual(['rolled back', 'outer']);
    expect(await idsOf(table)).toEqual([2]);
  });

  it('rolls back a transaction at its time limit and refuses its later statements', async () => {
    const table = await createTable();
    let late: Promise<unknown> = Promise.resolve();
    const stuck = db.transaction(async tx => {
      await tx.query(`insert into ${table} values (1)`);
      clock.fireAll();
      late = tx.query(`insert into ${table} values (2)`);
      await late;
    });
    await expect(stuck).rejects.toMatchObject({ code: 'ERR_STORE_UNAVAILABLE' });
    await expect(late).rejects.toMatchObject({ code: 'ERR_STORE_UNAVAILABLE' });
    expect(await idsOf(table)).toEqual([]);
  });

  it('ends a transaction at its time limit when it waits for a query outside of it', async () => {
    const table = await createTable();
    let outer: Promise<unknown> = Promise.resolve();
    const deadlocked = db.transaction(async tx => {
      await tx.query(`insert into ${table} values (1)`);
      outer = db.query(`insert into ${table} values (2)`);
      await tx.query('select 1');
      clock.fireAll();
      await outer;
    });
    await expect(deadlocked).rejects.toMatchObject({ code: 'ERR_STORE_UNAVAILABLE' });
    await outer;
    expect(await idsOf(table)).toEqual([2]);
  });

  it('rejects with the SQLSTATE of the error and without the parameters', async () => {
    const error: unknown = await db
      .query('select $1::int', ['secret'])
      .catch((caught: unknown) => caught);
    expect(error).toMatchObject({ code: '22P02', severity: 'ERROR' });
    expect(error).not.toHaveProperty('params');
  });

  it('refuses to commit a transaction that PostgreSQL has already aborted', async () => {
    const table = await createTable();
    const aborted = db.transaction(async tx => {
      await tx.query(`insert into ${table} values (1)`);
      await tx.query('select 1/0').catch(() => undefined);
    });
    await expect(aborted).rejects.toMatchObject({ code: '25P02' });
  });

  it('calls the listener when listening begins and after a commit with NOTIFY, never after a rollback', async () => {
    let calls = 0;
    let wake: () => void = () => undefined;
    const nextCall = (): Promise<void> => new Promise(resolve => (wake = resolve));
    const first = nextCall();
    const undo = db.listen('news', () => {
      calls++;
      wake();
    });
    await first;
    expect(calls).toBe(1);

    const failing = db.transaction(async tx => {
      await tx.query(`select pg_notify('news', '')`);
      throw new Error('roll back');
    });
    await expect(failing).rejects.toThrow();
    expect(calls).toBe(1);

    const second = nextCall();
    await db.transaction(async tx => {
      await tx.query(`select pg_notify('news', '')`);
      expect(calls).toBe(1);
    });
    await second;
    expect(calls).toBe(2);

    undo();
    await db.query(`notify news`);
    await db.query('select 1');
    expect(calls).toBe(2);
  });

  it('refuses a channel name that is not a plain identifier', () => {
    expect(() => db.listen('a; drop table t', () => undefined)).toThrow(
      expect.objectContaining({ code: 'ERR_NAME_UNSAFE' }),
    );
  });
});
