import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { PoolClient } from 'pg';
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from 'vitest';
import { z } from 'zod';
import { fromPg } from '../../src/adapters/transactions/pg.ts';
import { createOutlast } from '../../src/app/create-outlast.ts';
import type { Outlast } from '../../src/app/outlast.ts';
import { runOnce } from '../../src/app/start-services.ts';
import { task } from '../../src/task/define-task.ts';
import { createTestKit, type TestKit, type TestKitOptions } from '../../src/testing/index.ts';
import { migratedDatabase, type MigratedDatabase } from '../support/database.ts';
import { placeEmbedded } from '../support/embedded.ts';

const charge = task('kit.charge', { input: z.object({ order: z.string() }), result: z.string() });
const receipt = task('kit.receipt', { input: z.string() });

/** What is common to the transactions of both. */
interface Tx {
  query(text: string, values?: unknown[]): Promise<unknown>;
}

const TABLES = ['outlast_outbox', 'outlast_send_key', 'outlast_fence', 'outlast_effect'];
const EVERYTHING = `select (${TABLES.map(table => `(select count(*) from ${table})`).join('+')})::int as n`;

function handlersOf(outlast: Outlast<Tx>) {
  const charging = outlast.handler(charge, {
    retry: { maxAttempts: 3, backoff: '1m' },
    run: async ({ order }, ctx) =>
      await ctx.transaction(async tx => {
        await tx.query('insert into paid (id) values ($1)', [order]);
        await outlast.send(tx, receipt, order);
        return `paid ${order}`;
      }),
  });
  return [charging, outlast.handler(receipt, async () => undefined)];
}

async function open(outlast: Outlast<Tx>, options: TestKitOptions<Tx> = {}): Promise<TestKit> {
  const tasks = handlersOf(outlast);
  const kit = await createTestKit(outlast, { tasks, outbox: 'database', ...options });
  onTestFinished(() => kit[Symbol.asyncDispose]());
  return kit;
}

describe('a test kit with the outbox of a PostgreSQL', () => {
  let database: MigratedDatabase;
  const make = (): Outlast<Tx> => {
    const made = createOutlast({ database: database.url, adapter: fromPg(database.pool) });
    onTestFinished(() => made.close());
    return made;
  };
  const count = async (text = EVERYTHING): Promise<number> =>
    ((await database.pool.query(text)).rows[0] as { n: number }).n;
  const paid = (): Promise<number> => count('select count(*)::int as n from paid');
  const client = async (): Promise<PoolClient> => {
    const one = await database.pool.connect();
    // A test that fails leaves its transaction open.
    onTestFinished(() => one.release(true));
    return one;
  };

  beforeAll(async () => {
    database = await migratedDatabase('testing_database');
    await database.pool.query('create table paid (id text primary key)');
  });
  afterAll(() => database.dispose());

  it('sees what foreign transactions have committed, and not what they have rolled back', async () => {
    const [outlast, one] = [make(), await client()];
    const kit = await open(outlast);
    const send = () => outlast.send(one, charge, { order: '1' });
    await one.query('begin');
    await send();
    expect(() => kit.sent(charge)).toThrow(
      expect.objectContaining({ code: 'ERR_RESULT_BEFORE_COMMIT' }),
    );
    await kit.look();
    expect(() => kit.sent(charge)).toThrow(
      expect.objectContaining({ code: 'ERR_RESULT_BEFORE_COMMIT' }),
    );
    await one.query('rollback');
    await kit.look();
    expect(kit.sent(charge)).toEqual([]);
    expect(await kit.drain()).toMatchObject({ done: 0, waiting: 0 });

    await one.query('begin');
    const sent = await send();
    await one.query('commit');
    await kit.look();
    expect(kit.sent(charge)).toMatchObject([{ id: sent.id, input: { order: '1' } }]);
    expect(await count('select count(*)::int as n from outlast_outbox')).toBe(1);
    expect(await kit.drain()).toMatchObject({ done: 2, waiting: 0 });
    expect(await sent.result()).toBe('paid 1');
    expect([kit.sent(receipt).length, await paid()]).toEqual([1, 1]);
  });

  it('writes nothing into the ledger, keeps real workers and another kit away, and removes what it wrote', async () => {
    await database.pool.query('truncate paid');
    const before = await count();
    const [first, second, real] = [make(), make(), make()];
    const [kit, other] = [await open(first), await open(second)];
    // The same chosen id, ordering key and idempotency key.
    const options = { id: 'same', orderingKey: 'order', idempotencyKey: 'key' };
    const sent = await first.transaction(tx => first.send(tx, charge, { order: 'a' }, options));
    const twin = await second.transaction(tx => second.send(tx, charge, { order: 'b' }, options));
    const again = await first.transaction(tx => first.send(tx, charge, { order: 'a' }, options));
    expect([sent.isNew, twin.isNew, again.isNew, again.id]).toEqual([true, true, false, 'same']);
    await first.transaction(tx => first.send(tx, charge, { order: 'plain' }));
    expect(await count('select count(*)::int as n from outlast_task')).toBe(0);
    const ran = await real.transaction(tx =>
      real.send(tx, charge, { order: 'real' }, { orderingKey: 'order' }),
    );
    await runOnce(real, { tasks: handlersOf(real), maxTime: '30s' });
    expect(await ran.result()).toBe('paid real');
    expect(await kit.drain()).toMatchObject({ done: 4, dead: 0 });
    expect(await sent.result()).toBe('paid a');
    expect(other.sent(charge)).toMatchObject([{ id: 'same', input: { order: 'b' } }]);
    // What waits is removed with its kit, and so is what it has not moved on.
    await kit[Symbol.asyncDispose]();
    await other[Symbol.asyncDispose]();
    const left = await count(
      `select count(*)::int as n from outlast_task where id like 'testkit%'`,
    );
    expect([await count(), left, await paid()]).toEqual([before, 0, 3]);
    // Without the kits the instance is itself again.
    await first.transaction(tx => first.send(tx, receipt, 'x', { id: 'itself' }));
    expect(await count(`select count(*)::int as n from outlast_task where id = 'itself'`)).toBe(1);
  });

  it('rolls the transaction of a dead worker back, and loses no effect and does none twice', async () => {
    await database.pool.query('truncate paid');
    const outlast = make();
    const kit = await open(outlast);
    await outlast.transaction(tx => outlast.send(tx, charge, { order: '1' }));
    kit.crashAt('door.effect-not-committed');
    kit.crashAt('door.committed-not-reported');
    expect(await kit.drain({ within: '1h' })).toMatchObject({
      done: 2,
      crashes: ['door.effect-not-committed', 'door.committed-not-reported'],
    });
    expect([kit.sent(receipt).length, await paid()]).toEqual([1, 1]);
  });

  it('has real transactions behind rolledBack, failNext and loseReply, and its own clock', async () => {
    await database.pool.query('truncate paid');
    const outlast = make();
    const kit = await open(outlast);
    const work = async (tx: Tx, options = {}): Promise<void> => {
      await tx.query('insert into paid (id) values ($1)', ['1']);
      await outlast.send(tx, receipt, '1', options);
    };
    expect(await kit.rolledBack(async (tx: Tx) => await work(tx))).toEqual([]);
    kit.failNext('transaction');
    await expect(outlast.transaction(work)).rejects.toMatchObject({
      code: 'ERR_STORE_UNAVAILABLE',
    });
    expect([kit.sent(receipt).length, await paid()]).toEqual([0, 0]);
    kit.loseReply('transaction');
    await expect(outlast.transaction(tx => work(tx, { countdown: '1d' }))).rejects.toThrow();
    expect([kit.sent(receipt).length, await paid()]).toEqual([1, 1]);
    expect(await kit.relayOnce()).toBe(0);
    await kit.clock.advance('1d');
    expect(await kit.relayOnce()).toBe(1);
    expect(await kit.drain()).toMatchObject({ done: 1 });
  });

  it('cancels and finds what only the database has', async () => {
    const outlast = make();
    const kit = await open(outlast);
    const sent = await outlast.transaction(tx => outlast.send(tx, receipt, '1'));
    expect(await sent.state()).toBe('pending');
    await sent.cancel();
    expect(await kit.drain()).toMatchObject({ done: 0, waiting: 0 });
  });

  it('removes what a killed kit has left, and refuses what it cannot use', async () => {
    const outlast = make();
    const kit = await open(outlast);
    await outlast.transaction(tx => outlast.send(tx, receipt, '1'));
    const rows = `select count(*)::int as n from outlast_outbox`;
    await open(make());
    expect(await count(rows)).toBe(1);
    await database.pool.query(`update outlast_outbox set created_at = now() - interval '2 hours'`);
    await open(make());
    expect(await count(rows)).toBe(0);
    await kit[Symbol.asyncDispose]();
    const tx = (): Tx => ({ query: async () => undefined });
    await expect(open(outlast, { tx })).rejects.toMatchObject({ code: 'ERR_OPTIONS_CONFLICT' });
    const bad = { outbox: 'disk' as 'memory' };
    await expect(open(outlast, bad)).rejects.toMatchObject({ code: 'ERR_CONFIG_TIER' });
  });
});

describe('a test kit with the outbox of a PGlite', () => {
  it('sees commits and rollbacks, and refuses to look while a transaction is open', async () => {
    const folder = mkdtempSync(join(tmpdir(), 'outlast-testing-'));
    onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
    placeEmbedded(folder);
    const outlast = createOutlast({ database: `pglite:${folder}` }) as unknown as Outlast<Tx>;
    onTestFinished(() => outlast.close());
    await outlast.transaction(tx => tx.query('create table paid (id text primary key)'));
    const kit = await open(outlast);
    const escaped = await kit.rolledBack(async (tx: Tx) => {
      await outlast.send(tx, charge, { order: '1' });
      await expect(kit.look()).rejects.toMatchObject({ code: 'ERR_RESULT_BEFORE_COMMIT' });
    });
    expect(escaped).toEqual([]);
    const sent = await outlast.transaction(tx => outlast.send(tx, charge, { order: '1' }));
    kit.crashAt('door.effect-not-committed');
    expect(await kit.drain({ within: '1h' })).toMatchObject({
      done: 2,
      crashes: ['door.effect-not-committed'],
    });
    expect(await sent.result()).toBe('paid 1');
    await kit[Symbol.asyncDispose]();
    const left = await outlast.transaction(tx => tx.query(EVERYTHING));
    expect(left).toEqual([{ n: 0 }]);
  });
});
