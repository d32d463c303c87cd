import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { PoolClient } from 'pg';
import { fromPg } from '../../dist/adapters/transactions/pg.js';
import {
  createOutlast,
  startRelay,
  startWorker,
  task,
  unchecked,
  type Outlast,
} from '../../dist/index.js';
import { chord } from '../../dist/task/index.js';
import { migratedDatabase, until, type MigratedDatabase } from '../support/database.ts';

const echo = task('outboxes.echo', { input: unchecked<unknown>(), result: unchecked<unknown>() });

let main: MigratedDatabase;
let crm: MigratedDatabase;
let config: { database: string; outboxes: { crm: { database: string } } };
let producer: Outlast<PoolClient>;

beforeAll(async () => {
  [main, crm] = [await migratedDatabase('main'), await migratedDatabase('crm')];
  await crm.pool.query('create table customers (id text primary key)');
  config = { database: main.url, outboxes: { crm: { database: crm.url } } };
  producer = createOutlast({ ...config, outbox: 'crm', adapter: fromPg(crm.pool) });
});

afterAll(async () => {
  await producer.close();
  await main.dispose();
  await crm.dispose();
});

describe('an outbox in another database', () => {
  it('commits with the data there, is relayed here, and its result is found from there', async () => {
    const input = { nul: 'a\u0000b', big: 2n ** 70n };
    const sent = await producer.transaction(async tx => {
      await tx.query(`insert into customers values ('1')`);
      return await producer.send(tx, echo, input);
    });
    expect(await sent.state()).toBe('pending');
    const outlast = createOutlast(config);
    const relay = await startRelay(producer);
    const worker = await startWorker(outlast, { tasks: [outlast.handler(echo, value => value)] });
    expect(await sent.result()).toEqual(input);
    expect((await crm.pool.query('select 1 from outlast_outbox')).rowCount).toBe(0);
    await relay.stop();
    await worker.stop();
    await outlast.close();
  });

  it('never shows rolled-back rows', async () => {
    const relay = await startRelay(producer);
    let id = '';
    const rolledBack = producer.transaction(async tx => {
      id = (await producer.send(tx, echo, 1)).id;
      throw new Error('no customer after all');
    });
    await expect(rolledBack).rejects.toThrow('no customer after all');
    const next = await producer.transaction(tx => producer.send(tx, echo, 2));
    await until(async () => (await next.state()) === 'waiting');
    expect(await producer.find(echo, id).state()).toBe('unknown');
    await relay.stop();
  });

  it('opens its chords in the ledger before a relay publishes them, and not in its own database', async () => {
    const header = ['a', 'b'].map(value => echo.with(value));
    await producer.transaction(tx => producer.sendMany(tx, [chord(header, echo)]));
    const open = async ({ pool }: MigratedDatabase) =>
      (await pool.query<{ size: number; body: string }>('select size, body from outlast_chord'))
        .rows;
    expect(await open(crm)).toEqual([]);
    const relay = await startRelay(producer);
    await until(async () => (await open(main)).length > 0);
    expect(await open(main)).toEqual([{ size: 2, body: 'outboxes.echo' }]);
    await relay.stop();
  });

  it('keeps its rows while the broker is unreachable, and spends none of their retries', async () => {
    const away = createOutlast({
      database: 'postgres://nobody@127.0.0.1:1/none',
      outboxes: config.outboxes,
      outbox: 'crm',
      adapter: fromPg(crm.pool),
    });
    const sent = await away.transaction(tx => away.send(tx, echo, 3));
    await expect(startRelay(away)).rejects.toMatchObject({ code: 'ERR_STORE_UNAVAILABLE' });
    const { rows } = await crm.pool.query<{ state: string; retries: number }>(
      'select state, retries from outlast_outbox where task_id = $1',
      [sent.id],
    );
    expect(rows).toEqual([{ state: 'pending', retries: 0 }]);
    await away.close();
  });

  it('is refused under a name that the configuration does not have', () => {
    expect(() => createOutlast({ ...config, outbox: 'cmr' })).toThrow(
      expect.objectContaining({ code: 'ERR_OPTION_RANGE', hint: 'Did you mean crm?' }) as Error,
    );
  });

  it('cannot be embedded', () => {
    const outboxes = { crm: { database: 'pglite:./crm' } };
    expect(() => createOutlast({ outboxes })).toThrow(
      expect.objectContaining({ code: 'ERR_CONFIG_TIER' }) as Error,
    );
  });

  it('has a door although the ledger is elsewhere: the fence is stored beside the effect', async () => {
    const outlast = createOutlast(config);
    const separate = task('outboxes.separate', { queue: 'separate', result: unchecked<string>() });
    const handler = producer.handler(separate, (_, ctx) => ctx.transaction(async () => ctx.id));
    const worker = await startWorker(outlast, { tasks: [handler], queues: ['separate'] });
    const sent = await outlast.push(separate);
    expect(await sent.result()).toBe(sent.id);
    await worker.stop();
    await outlast.close();
  });
});
