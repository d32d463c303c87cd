import { afterAll, beforeAll, describe, expect, it, onTestFinished } from 'vitest';
import { z } from 'zod';
import { isOutlastError } from '../../src/errors/error.ts';
import type { ErrorCode } from '../../src/errors/codes.ts';
import { ALONE, composeTask } from '../../src/outbox/compose.ts';
import { envelopeOf, type NewTask } from '../../src/outbox/outbox-writer.ts';
import { uuidv7 } from '../../src/runtime/runtime.ts';
import { task, type SendOptions } from '../../src/task/define-task.ts';
import { NO_KEYS } from '../../src/task/keyring.ts';
import { unchecked } from '../../src/task/standard-schema.ts';
import { createOutlast } from '../../src/app/create-outlast.ts';
import type { Outlast } from '../../src/app/outlast.ts';
import { migratedMariadb, type MigratedMariadb } from '../support/database.ts';
import { DRIVERS, type Driver, type DriverConnection } from '../support/mysql-drivers.ts';

const anything = task('send.anything', { input: unchecked<unknown>() });
const order = task('send.order', { input: z.object({ orderId: z.string() }) });
const nightly = task('send.nightly');
const deep = (levels: number): unknown => (levels === 0 ? 1 : { in: deep(levels - 1) });

describe.each(Object.entries(DRIVERS))('a send with %s', (_, open) => {
  let database: MigratedMariadb;
  let driver: Driver;
  let outlast: Outlast<DriverConnection>;

  beforeAll(async () => {
    database = await migratedMariadb('send');
    await database.pool.query('create table orders (id varchar(64) primary key)');
    driver = open(database.url);
    // The ledger is never contacted: nothing listens there.
    outlast = createOutlast({
      database: 'postgres://nobody@127.0.0.1:1/none',
      outboxes: { crm: { database: database.url } },
      outbox: 'crm',
      adapter: driver.adapter,
    });
  });

  afterAll(async () => {
    await outlast.close();
    await driver.close();
    await database.dispose();
  });

  const rows = async (text: string, values: unknown[] = []): Promise<Record<string, unknown>[]> =>
    (await database.pool.query(text, values))[0] as Record<string, unknown>[];
  const rowsOf = async (id: string): Promise<number> =>
    (await rows('select 1 from outlast_outbox where task_id = ?', [id])).length;
  const countRows = async (): Promise<number> =>
    (await rows('select 1 from outlast_outbox')).length;

  /** Runs `fn` in a transaction that is committed even if `fn` throws, to see whether it was harmed. */
  async function inTransaction<T>(fn: (tx: DriverConnection) => Promise<T>): Promise<T | Error> {
    const tx = await driver.connect();
    await tx.beginTransaction();
    const answer = await fn(tx).catch((error: unknown) => error as Error);
    await tx.commit();
    await tx.release();
    return answer;
  }

  it('appears with its data when the transaction commits', async () => {
    const sent = await outlast.transaction(async tx => {
      await driver.run(tx, `insert into orders (id) values ('kept')`);
      return await outlast.send(tx, order, { orderId: 'kept' });
    });
    expect(sent.isNew).toBe(true);
    expect(await rowsOf(sent.id)).toBe(1);
    expect(await rows(`select 1 from orders where id = 'kept'`)).toHaveLength(1);
  });

  it('never appears when the transaction is rolled back', async () => {
    let id = '';
    const rolledBack = outlast.transaction(async tx => {
      id = (await outlast.send(tx, order, { orderId: 'gone' })).id;
      throw new Error('no order after all');
    });
    await expect(rolledBack).rejects.toThrow('no order after all');
    expect(await rowsOf(id)).toBe(0);
  });

  it('keeps its options: queue, priority, times, headers', async () => {
    const [eta, expires] = [new Date('2031-02-03T04:05:06.789Z'), new Date('9999-12-31T23:59:59Z')];
    const options: SendOptions = {
      queue: 'vip',
      priority: 9,
      eta,
      expires,
      headers: { a: 'ü\u0000' },
    };
    const sent = await outlast.transaction(tx => outlast.send(tx, nightly, undefined, options));
    const [row] = await rows(
      `select queue, priority, cast(eta as char) as eta, cast(expires_at as char) as expires,
        eta = available_at as waits, options from outlast_outbox where task_id = ?`,
      [sent.id],
    );
    expect(row).toMatchObject({
      queue: 'vip',
      priority: 9,
      eta: '2031-02-03 04:05:06.789000',
      expires: '9999-12-31 23:59:59.000000',
      waits: 1,
    });
    expect(JSON.parse(String(row?.['options']))).toMatchObject({ headers: { a: 'ü\u0000' } });
  });

  it('writes a thousand and one tasks in order, with their own handles', async () => {
    const calls = Array.from({ length: 1_001 }, (_unused, n) => anything.with(n));
    const handles = await outlast.transaction(tx => outlast.sendMany(tx, calls));
    expect(new Set(handles.map(handle => handle.id)).size).toBe(1_001);
    const stored = await rows('select args from outlast_outbox where task_id in (?) order by id', [
      handles.map(handle => handle.id),
    ]);
    expect(stored.map(row => JSON.parse(String(row['args'])) as unknown)).toEqual(
      calls.map(call => [call.input]),
    );
  });

  it('writes many large tasks that would not fit into one statement', async () => {
    const calls = Array.from({ length: 30 }, (_unused, n) =>
      anything.with(`${n}`.padEnd(700_000, 'x')),
    );
    const handles = await outlast.transaction(tx => outlast.sendMany(tx, calls));
    const stored = await rows(
      'select sum(length(args)) as bytes from outlast_outbox where task_id in (?)',
      [handles.map(handle => handle.id)],
    );
    expect(Number(stored[0]?.['bytes'])).toBe(30 * 700_004);
  });

  describe('values', () => {
    const stored = async (input: unknown): Promise<string> => {
      const sent = await outlast.transaction(tx => outlast.send(tx, anything, input));
      const [row] = await rows('select args, kwargs from outlast_outbox where task_id = ?', [
        sent.id,
      ]);
      return `${String(row?.['args'])}${String(row?.['kwargs'])}`;
    };

    it('carry NUL and lone surrogates as escapes, so that they survive byte for byte', async () => {
      expect(await stored('a\u0000b\ud800c')).toBe(String.raw`["a\u0000b\ud800c"]{}`);
    });

    it('may be nested forty deep, which the JSON type of MariaDB refuses', async () => {
      expect(await stored(deep(40))).toBe(`[]${JSON.stringify(deep(40))}`);
    });

    it('carry four-byte characters and quotes of SQL', async () => {
      const text = `😀 '; drop table orders; -- \\' \\`;
      expect(await stored(text)).toBe(`[${JSON.stringify(text)}]{}`);
    });

    it('are the same under any session settings', async () => {
      const sent = await outlast.transaction(async tx => {
        await driver.run(
          tx,
          `set session sql_mode = 'NO_BACKSLASH_ESCAPES,ANSI_QUOTES', time_zone = '+05:00'`,
        );
        await driver.run(tx, `set names latin1`);
        const handle = await outlast.send(tx, anything, 'ü \\ \u0000', {
          idempotencyKey: 'schlüssel\\',
        });
        await driver.run(tx, `set session sql_mode = default, time_zone = default`);
        await driver.run(tx, `set names utf8mb4`);
        return handle;
      });
      const [row] = await rows(
        `select args, idempotency_key, abs(timestampdiff(second, available_at, utc_timestamp())) < 60 as is_now
         from outlast_outbox where task_id = ?`,
        [sent.id],
      );
      expect(String(row?.['args'])).toBe(JSON.stringify(['ü \\ \u0000']));
      expect(String(row?.['idempotency_key'])).toBe('schlüssel\\');
      expect(row?.['is_now']).toBe(1);
    });
  });

  interface BadInput {
    readonly what: string;
    readonly code: ErrorCode;
    readonly send: (tx: DriverConnection) => Promise<unknown>;
  }
  const BAD_INPUT: readonly BadInput[] = [
    {
      what: 'SQL in an id',
      code: 'ERR_NAME_UNSAFE',
      send: tx => outlast.send(tx, nightly, undefined, { id: "x'; drop table orders; --" }),
    },
    {
      what: 'SQL in a queue',
      code: 'ERR_NAME_UNSAFE',
      send: tx => outlast.send(tx, nightly, undefined, { queue: 'q`; drop table orders' }),
    },
    {
      what: 'NUL in a key',
      code: 'ERR_NAME_UNSAFE',
      send: tx => outlast.send(tx, nightly, undefined, { idempotencyKey: 'a\u0000' }),
    },
    {
      what: 'a lone surrogate in a key',
      code: 'ERR_NAME_UNSAFE',
      send: tx => outlast.send(tx, nightly, undefined, { idempotencyKey: 'a\ud800' }),
    },
    {
      what: 'a payload one byte over the limit',
      code: 'ERR_PAYLOAD_TOO_LARGE',
      send: async tx => outlast.send(tx, anything, 'x'.repeat((await atLimit()) + 1)),
    },
  ];

  /** The longest text that fits: body and options together are exactly the limit. */
  async function atLimit(): Promise<number> {
    const { body, options } = envelopeOf(await compose(''));
    return 1_048_576 - body.length - options.length;
  }

  const compose = async (input: unknown, options: SendOptions = {}): Promise<NewTask> =>
    await composeTask(anything.with(input, options), ALONE, {
      nowMs: Date.now(),
      newId: () => uuidv7(Date.now()),
      maxPayloadBytes: 1_048_576,
      redact: null,
      keyring: NO_KEYS,
      parent: null,
    });

  describe('bad input', () => {
    it.each(BAD_INPUT)('$what is $code and harms no transaction', async ({ code, send }) => {
      const before = await countRows();
      const answer = await inTransaction(async tx => {
        await driver.run(tx, `insert ignore into orders (id) values ('${code}')`);
        await send(tx);
      });
      expect(isOutlastError(answer, code)).toBe(true);
      expect(await rows('select 1 from orders where id = ?', [code])).toHaveLength(1);
      expect(await countRows()).toBe(before);
    });

    it('accepts a payload at the limit', async () => {
      const length = await atLimit();
      const sent = await outlast.transaction(tx => outlast.send(tx, anything, 'x'.repeat(length)));
      const [row] = await rows(
        'select length(args) as bytes from outlast_outbox where task_id = ?',
        [sent.id],
      );
      expect(Number(row?.['bytes'])).toBe(length + 4);
    });

    it('refuses what the server would close the connection for, and the transaction continues', async () => {
      const larger = createOutlast({
        database: 'postgres://nobody@127.0.0.1:1/none',
        outboxes: { crm: { database: database.url } },
        outbox: 'crm',
        adapter: driver.adapter,
        maxPayloadBytes: 100_000_000,
        maxMessageBytes: 100_000_000,
      });
      onTestFinished(() => larger.close());
      const answer = await inTransaction(async tx => {
        await driver.run(tx, `insert into orders (id) values ('packet')`);
        await larger.send(tx, anything, 'x'.repeat(20_000_000));
      });
      expect(isOutlastError(answer, 'ERR_PAYLOAD_TOO_LARGE')).toBe(true);
      expect(await rows(`select 1 from orders where id = 'packet'`)).toHaveLength(1);
    });

    it('refuses a pool, because its statements are not one transaction', async () => {
      await expect(outlast.send(driver.pool, nightly)).rejects.toMatchObject({
        code: 'ERR_NOT_IN_TRANSACTION',
      });
    });

    it('shows no payload in the errors of the driver', async () => {
      const answer = await inTransaction(async tx => {
        await driver.run(tx, 'create temporary table outlast_outbox (id int)');
        const thrown = await outlast
          .send(tx, anything, 'secret payload')
          .catch((error: unknown) => error);
        await driver.run(tx, 'drop temporary table outlast_outbox');
        return thrown;
      });
      const base64 = Buffer.from('["secret payload"]').toString('base64');
      const { cause } = answer as Error;
      const shown = [answer, cause].map(error => {
        const { message, stack, ...fields } = error as Error & Record<string, unknown>;
        return `${message} ${stack ?? ''} ${JSON.stringify(fields)}`;
      });
      expect(isOutlastError(answer, 'ERR_SCHEMA_MISSING')).toBe(true);
      expect(shown.join()).not.toContain(base64);
    });
  });

  describe('an idempotency key', () => {
    const send = async (orderId: string, options: SendOptions) =>
      await outlast.transaction(tx => outlast.send(tx, order, { orderId }, options));

    it('returns the first handle to a second send', async () => {
      const first = await send('1', { idempotencyKey: 'key-1' });
      expect(await send('1', { idempotencyKey: 'key-1' })).toMatchObject({
        id: first.id,
        isNew: false,
      });
    });

    it('is another key with a trailing space, or in capitals', async () => {
      const keys = ['trailing', 'trailing ', 'Trailing', 'tra\u0308iling'];
      const sent = await Promise.all(keys.map(idempotencyKey => send('1', { idempotencyKey })));
      expect(sent.map(({ isNew }) => isNew)).toEqual([true, true, true, true]);
    });

    it('is refused with other input, and the transaction continues', async () => {
      await send('1', { idempotencyKey: 'key-2' });
      const answer = await inTransaction(async tx => {
        const refused = await outlast
          .send(tx, order, { orderId: '2' }, { idempotencyKey: 'key-2' })
          .catch((error: unknown) => error);
        expect(isOutlastError(refused, 'ERR_IDEMPOTENCY_MISMATCH')).toBe(true);
        return await outlast.send(tx, order, { orderId: '3' });
      });
      expect(answer).not.toBeInstanceOf(Error);
    });

    it('stays free when it was rolled back with its task', async () => {
      const gone = outlast.transaction(async tx => {
        await outlast.send(tx, order, { orderId: '1' }, { idempotencyKey: 'key-3' });
        throw new Error('rolled back');
      });
      await expect(gone).rejects.toThrow('rolled back');
      expect((await send('1', { idempotencyKey: 'key-3' })).isNew).toBe(true);
    });

    it('is acquired by one of several concurrent transactions', async () => {
      const sent = await Promise.all(
        Array.from({ length: 5 }, () => send('1', { idempotencyKey: 'key-4' })),
      );
      expect(sent.filter(({ isNew }) => isNew)).toHaveLength(1);
      expect(new Set(sent.map(({ id }) => id)).size).toBe(1);
    });

    it('is kept for its window after its task has left, and as long as its task is there', async () => {
      const options = { id: 'keyed-id', idempotencyKey: 'key-5' };
      await send('1', options);
      await rows(
        `update outlast_send_key set free_at = utc_timestamp(6) - interval 1 day where task_id = 'keyed-id'`,
      );
      expect(await send('1', options)).toMatchObject({ id: 'keyed-id', isNew: false });
      await rows(
        `update outlast_send_key set free_at = utc_timestamp(6) + interval 1 day where task_id = 'keyed-id'`,
      );
      await rows(`delete from outlast_outbox where task_id = 'keyed-id'`);
      expect(await send('1', options)).toMatchObject({ id: 'keyed-id', isNew: false });
      expect(await rowsOf('keyed-id')).toBe(0);
    });

    it('is free again after its window, for any input', async () => {
      await send('1', { id: 'window-1', idempotencyKey: 'key-6' });
      await rows(`delete from outlast_outbox where task_id = 'window-1'`);
      await rows(
        `update outlast_send_key set free_at = utc_timestamp(6) - interval 1 second where task_id = 'window-1'`,
      );
      const again = await send('2', { id: 'window-2', idempotencyKey: 'key-6' });
      expect(again).toMatchObject({ id: 'window-2', isNew: true });
      expect(await send('2', { idempotencyKey: 'key-6' })).toMatchObject({
        id: 'window-2',
        isNew: false,
      });
    });

    it('belongs to the first task of a batch that names it', async () => {
      const [first, second, third] = await outlast.transaction(tx =>
        outlast.sendMany(tx, [
          order.with({ orderId: '1' }, { idempotencyKey: 'key-7' }),
          order.with({ orderId: '1' }, { idempotencyKey: 'key-7' }),
          order.with({ orderId: '2' }, { idempotencyKey: 'key-8' }),
        ]),
      );
      expect(second).toMatchObject({ id: first.id, isNew: false });
      expect(third.isNew).toBe(true);
    });
  });

  describe('an id', () => {
    const send = async (orderId: string, id: string) =>
      await outlast.transaction(tx => outlast.send(tx, order, { orderId }, { id }));

    it('is the same task with the same input, and an error with other input', async () => {
      expect([(await send('1', 'my-id')).isNew, (await send('1', 'my-id')).isNew]).toEqual([
        true,
        false,
      ]);
      const other = await inTransaction(tx =>
        outlast.send(tx, order, { orderId: '2' }, { id: 'my-id' }),
      );
      expect(isOutlastError(other, 'ERR_IDEMPOTENCY_MISMATCH')).toBe(true);
    });

    it('is another id in capitals', async () => {
      expect([(await send('1', 'CaSe')).isNew, (await send('1', 'case')).isNew]).toEqual([
        true,
        true,
      ]);
    });

    it('that already exists does not stop the rest of a batch from being written', async () => {
      await send('1', 'known');
      const [before, known, after] = await outlast.transaction(tx =>
        outlast.sendMany(tx, [
          order.with({ orderId: '0' }, { id: 'before' }),
          order.with({ orderId: '1' }, { id: 'known' }),
          order.with({ orderId: '2' }, { id: 'after' }),
        ]),
      );
      expect([before.isNew, known.isNew, after.isNew]).toEqual([true, false, true]);
      expect(await rowsOf('before')).toBe(1);
      expect(await rowsOf('after')).toBe(1);
    });

    it('that is committed while we wait for it is recognised by its digest, in any isolation level', async () => {
      const [one, two] = [await driver.connect(), await driver.connect()];
      await one.beginTransaction();
      await two.beginTransaction();
      // Its snapshot is older than the conflicting row.
      await driver.run(two, 'select count(*) from outlast_outbox');
      await outlast.send(one, order, { orderId: '1' }, { id: 'race' });
      const waiting = outlast.send(two, order, { orderId: '1' }, { id: 'race' });
      await one.commit();
      expect((await waiting).isNew).toBe(false);
      await two.commit();
      for (const connection of [one, two]) await connection.release();
    });

    it('twice in a batch is one task with the same input, and an error with other input', async () => {
      const same = await outlast.transaction(tx =>
        outlast.sendMany(tx, [
          anything.with(1, { id: 'twin-1' }),
          anything.with(1, { id: 'twin-1' }),
        ]),
      );
      expect(same.map(({ isNew }) => isNew)).toEqual([true, false]);
      const other = await inTransaction(tx =>
        outlast.sendMany(tx, [
          anything.with(1, { id: 'twin-2' }),
          anything.with(2, { id: 'twin-2' }),
        ]),
      );
      expect(isOutlastError(other, 'ERR_IDEMPOTENCY_MISMATCH')).toBe(true);
    });
  });

  describe('an ordering key', () => {
    const write = async (
      tx: DriverConnection,
      orderingKey: string,
      input: unknown,
    ): Promise<void> => void (await outlast.send(tx, anything, input, { orderingKey }));

    it('makes the order of ids the order of commits, also with rollbacks in between', async () => {
      const committed: number[] = [];
      const one = async (n: number): Promise<void> => {
        const tx = await driver.connect();
        await tx.beginTransaction();
        await write(tx, 'orders', n);
        // Without the lock, the first transaction would often commit last.
        await driver.run(tx, `select sleep(${(25 - n) / 1_000})`);
        if (n % 5 === 0) await tx.rollback();
        else {
          committed.push(n);
          await tx.commit();
        }
        await tx.release();
      };
      await Promise.all(Array.from({ length: 25 }, (_unused, n) => one(n)));
      const stored = await rows(
        `select args, schema_version, ordering_key from outlast_outbox where ordering_key = 'orders' order by id`,
      );
      expect(stored.map(row => (JSON.parse(String(row['args'])) as number[])[0])).toEqual(
        committed,
      );
      expect(stored.every(row => row['schema_version'] === 2)).toBe(true);
    });

    it('is locked until the transaction ends, and blocks no other key', async () => {
      const [one, two] = [await driver.connect(), await driver.connect()];
      await one.beginTransaction();
      await two.beginTransaction();
      await write(one, 'held', 1);
      await write(two, 'other', 1);
      let isIn = false;
      const waiting = write(two, 'held', 2).then(() => (isIn = true));
      // A transaction that does not wait has sent many times by now.
      for (let n = 0; n < 10; n++) await outlast.transaction(tx => outlast.send(tx, nightly));
      expect(isIn).toBe(false);
      await one.commit();
      await waiting;
      await two.commit();
      for (const connection of [one, two]) await connection.release();
    });

    it('is locked in one order, so that batches with the same keys do not deadlock', async () => {
      const keys = Array.from({ length: 20 }, (_unused, n) => `deadlock-${n}`);
      const batch = async (sorted: readonly string[]): Promise<void> => {
        const calls = sorted.map(orderingKey => anything.with(orderingKey, { orderingKey }));
        await outlast.transaction(tx => outlast.sendMany(tx, calls));
      };
      const orders = Array.from({ length: 8 }, (_unused, n) =>
        n % 2 === 0 ? keys : keys.toReversed(),
      );
      await Promise.all(orders.map(batch));
      expect(
        await rows(`select 1 from outlast_outbox where ordering_key like 'deadlock-%'`),
      ).toHaveLength(160);
    });

    it('is refused where its lock rows are missing', async () => {
      await rows('create table kept_slots as select * from outlast_ordering_key');
      await rows('delete from outlast_ordering_key');
      const answer = await inTransaction(tx => write(tx, 'lost', 1));
      await rows('insert into outlast_ordering_key select * from kept_slots');
      expect(isOutlastError(answer, 'ERR_SCHEMA_MISSING')).toBe(true);
    });
  });
});

describe('a connection of mariadb', () => {
  it('knows whether it is in a transaction', async () => {
    const database = await migratedMariadb('status');
    const driver = DRIVERS['mariadb']?.(database.url) as Driver;
    onTestFinished(async () => {
      await driver.close();
      await database.dispose();
    });
    const { adapter } = driver;
    const tx = await driver.connect();
    expect(adapter.status(tx)).toBe('none');
    await tx.beginTransaction();
    expect(adapter.status(tx)).toBe('open');
    await tx.rollback();
    expect(adapter.status(tx)).toBe('none');
    await driver.run(tx, 'set autocommit = 0');
    expect(adapter.status(tx)).toBe('open');
    await driver.run(tx, 'set autocommit = 1');
    await tx.release();
  });
});
