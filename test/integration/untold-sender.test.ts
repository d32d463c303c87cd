import type { PoolClient } from 'pg';
import { afterAll, afterEach, beforeAll, describe, expect, it, onTestFinished } from 'vitest';
import { PgDatabase } from '../../src/adapters/postgres/pg-database.ts';
import { PostgresTiers } from '../../src/adapters/postgres/postgres-tiers.ts';
import { fromPg } from '../../src/adapters/transactions/pg.ts';
import { createOutlast } from '../../src/app/create-outlast.ts';
import type { Outlast } from '../../src/app/outlast.ts';
import type { ServedStore } from '../../src/ledger/tier-store.ts';
import { task, type SendOptions } from '../../src/task/define-task.ts';

import { unchecked } from '../../src/task/standard-schema.ts';
import { CliProject } from '../support/cli-project.ts';
import { withDatabase } from '../support/servers.ts';
import { migratedDatabase, type MigratedDatabase } from '../support/database.ts';

const BROKER: ServedStore = { role: 'broker', store: 'amqp://rabbit/' };
const pay = task('untold.pay', { input: unchecked<number>() });

/** The sender has a database and no broker; relays, which have both, have been at work. */
describe('a sender that was not told of the broker', () => {
  let database: MigratedDatabase;
  let db: PgDatabase;
  let tiers: PostgresTiers;
  let outlast: Outlast<PoolClient>;
  const logged: string[] = [];

  beforeAll(async () => {
    database = await migratedDatabase('untold');
    db = await PgDatabase.open({ url: database.url, poolSize: 1, queryTimeoutMs: 30_000 });
    tiers = new PostgresTiers(db);
  });
  afterAll(async () => {
    await db.close();
    await database.dispose();
  });
  afterEach(() => outlast.close());

  function open(): void {
    logged.length = 0;
    const none = (): void => undefined;
    const warn = (_fields: unknown, text?: string): void => void logged.push(text ?? '');
    const log = { debug: none, info: none, warn, error: none, child: () => log };
    outlast = createOutlast({ database: database.url, adapter: fromPg(database.pool), log });
  }

  async function inside<T>(fn: (tx: PoolClient) => Promise<T>, end = 'commit'): Promise<T> {
    const client = await database.pool.connect();
    try {
      await client.query('begin');
      const value = await fn(client);
      await client.query(end);
      return value;
    } finally {
      client.release();
    }
  }

  const idsIn = async (table: 'outlast_outbox' | 'outlast_task'): Promise<string[]> => {
    const column = table === 'outlast_task' ? 'id' : 'task_id';
    const { rows } = await database.pool.query<{ id: string }>(
      `with gone as (delete from ${table} returning ${column} as id) select id from gone order by id`,
    );
    return rows.map(({ id }) => id);
  };

  const KINDS: Readonly<Record<string, SendOptions>> = {
    plain: {},
    'with an eta': { countdown: '1h' },
    'with a chosen id': { id: 'chosen' },
    'with a key': { idempotencyKey: 'key' },
    'with an order': { orderingKey: 'o' },
  };

  it.each(Object.entries(KINDS))('writes a row of the outbox: %s', async (_, options) => {
    open();
    await tiers.note([BROKER]);
    const sent = await inside(async tx => {
      const alone = await outlast.send(tx, pay, 1, options);
      const many = await outlast.sendMany(tx, [pay.with(2), pay.with(3)]);
      return [alone, ...many].map(({ id }) => id).toSorted();
    });
    await inside(tx => outlast.send(tx, pay, 1, { ...options, id: 'undone' }), 'rollback');
    expect(await idsIn('outlast_task')).toEqual([]);
    expect(await idsIn('outlast_outbox')).toEqual(sent);
    expect(logged.filter(line => line.includes('OUTLAST_BROKER_URL'))).toHaveLength(1);
  });

  it('is refused a push', async () => {
    open();
    await tiers.note([BROKER]);
    await expect(outlast.push(pay, 1)).rejects.toMatchObject({ code: 'ERR_CONFIG_TIER' });
    expect(await idsIn('outlast_task')).toEqual([]);
  });

  it('learns of the broker from the migration, before any relay has run', async () => {
    const empty = await withDatabase('untold_new');
    onTestFinished(() => empty.drop());
    const env = { OUTLAST_DATABASE_URL: empty.url, OUTLAST_BROKER_URL: 'amqp://127.0.0.1:1' };
    const project = new CliProject({}, env);
    onTestFinished(() => project.dispose());
    expect(await project.run('migrate')).toMatchObject({ code: 0 });
    outlast = createOutlast({ database: empty.url });
    await outlast.transaction(tx => outlast.send(tx, pay, 1));
    expect((await project.run('outbox', 'list')).stdout).toContain(pay.name);
  });

  it('finds out when relays begin and when the broker is given up', async () => {
    open();
    await tiers.forget(BROKER);
    const before = await inside(tx => outlast.send(tx, pay, 1));
    expect(await idsIn('outlast_task')).toEqual([before.id]);
    await tiers.note([BROKER]);
    const { id } = await inside(tx => outlast.send(tx, pay, 2));
    expect([await idsIn('outlast_outbox'), await idsIn('outlast_task')]).toEqual([[id], []]);
    await tiers.forget(BROKER);
    await outlast.close();
    open();
    const after = await inside(tx => outlast.send(tx, pay, 3));
    expect(await idsIn('outlast_task')).toEqual([after.id]);
    expect(logged).toEqual([]);
  });

  it.each([
    ['one task', [pay.with(1)]],
    ['several', [pay.with(1), pay.with(2)]],
  ])(
    'writes nothing into the next transaction when the send of %s was not awaited',
    async (_, calls) => {
      open();
      await tiers.forget(BROKER);
      // From the second send on nothing is compared any more, so the first statement is the one that writes.
      await inside(tx => outlast.send(tx, pay, 0));
      await idsIn('outlast_task');
      await tiers.note([BROKER]);
      const client = await database.pool.connect();
      onTestFinished(() => client.release());
      await client.query('begin');
      const sending = outlast.sendMany(client, calls);
      const ends = [client.query('rollback'), client.query('begin')];
      await expect(sending).rejects.toMatchObject({ code: 'ERR_NOT_IN_TRANSACTION' });
      await Promise.all(ends);
      await client.query('commit');
      expect([await idsIn('outlast_outbox'), await idsIn('outlast_task')]).toEqual([[], []]);
    },
  );
});
