import { Client, type PoolClient } from 'pg';
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from 'vitest';
import { fromPg } from '../../src/adapters/transactions/pg.ts';
import { task, type SendOptions } from '../../src/task/define-task.ts';
import { createOutlast } from '../../src/app/create-outlast.ts';
import type { Outlast } from '../../src/app/outlast.ts';
import { gate, migratedDatabase, type MigratedDatabase } from '../support/database.ts';

const nightly = task('notify.nightly');

let database: MigratedDatabase;
beforeAll(async () => {
  database = await migratedDatabase('notify');
});
afterAll(() => database.dispose());

interface Setup {
  readonly outlast: Outlast<PoolClient>;
  readonly send: (options?: SendOptions) => Promise<unknown>;
  /** How many notifications about rows came since the last call. */
  readonly notified: () => Promise<number>;
}

async function setup(channel: string, outbox?: string): Promise<Setup> {
  const adapter = fromPg(database.pool);
  const outboxes = { own: { database: database.url } };
  const outlast = createOutlast({
    database: database.url,
    outboxes,
    ...(outbox && { outbox }),
    adapter,
  });
  const listener = new Client({ connectionString: database.url });
  await listener.connect();
  onTestFinished(async () => {
    await listener.end();
    await outlast.close();
  });
  let count = 0;
  let end = gate();
  listener.on('notification', ({ payload }) => {
    if (payload === 'end') end.open();
    else count += 1;
  });
  await listener.query(`listen ${channel}`);
  return {
    outlast,
    send: options => outlast.transaction(tx => outlast.send(tx, nightly, undefined, options)),
    notified: async () => {
      // Notifications come in the order of commits: all earlier ones have arrived when this one does.
      end = gate();
      await database.pool.query(`select pg_notify('${channel}', 'end')`);
      await end.opened;
      return count - (count = 0);
    },
  };
}

/** What is sent to a named outbox is a row of it. */
describe.each([
  ['tasks, which workers are', 'outlast_task', undefined],
  ['rows, which relays are', 'outlast_outbox', 'own'],
])('a listener for new %s,', (_, channel, outbox) => {
  it('is notified of every send, by any statement, while there are few', async () => {
    const { outlast, send, notified } = await setup(channel, outbox);
    await send();
    expect(await notified()).toBe(1);
    await send({ id: `given-${channel}` });
    expect(await notified()).toBe(1);
    await send({ idempotencyKey: `key-${channel}` });
    expect(await notified()).toBe(1);
    await outlast.transaction(tx => outlast.sendMany(tx, [nightly.with(), nightly.with()]));
    expect(await notified()).toBe(1);
  });

  it('is not notified of sends that were not written or not committed', async () => {
    const { outlast, send, notified } = await setup(channel, outbox);
    const twice = `twice-${channel}`;
    await send({ id: twice, idempotencyKey: twice });
    await notified();
    await send({ id: twice });
    await send({ idempotencyKey: twice });
    const sending = outlast.transaction(async tx => {
      await outlast.send(tx, nightly);
      throw new Error('rolled back');
    });
    await expect(sending).rejects.toThrow('rolled back');
    expect(await notified()).toBe(0);
  });

  it('is notified of some sends where there are many', async () => {
    const { send, notified } = await setup(channel, outbox);
    const startedAt = performance.now();
    for (let n = 0; n < 300; n++) await send();
    const seconds = (performance.now() - startedAt) / 1000;
    const times = await notified();
    expect(times).toBeGreaterThanOrEqual(10);
    expect(times).toBeLessThanOrEqual(Math.min(300, 11 + 50 * seconds));
  });
});
