import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { PGlite, Transaction } from '@electric-sql/pglite';
import { z } from 'zod';
import { openEmbedded, type EmbeddedDatabase } from '../../dist/adapters/pglite/open-embedded.js';
import { fromPGlite } from '../../dist/adapters/transactions/pglite.js';
import {
  createOutlast,
  startRelay,
  startResurrector,
  startWorker,
  task,
  type Outlast,
  type Service,
} from '../../dist/index.js';

const order = task('embedded.order', {
  input: z.object({ id: z.string() }),
  result: z.object({ mailId: z.string() }),
});

const folders: string[] = [];
const newFolder = (): string => {
  const folder = mkdtempSync(join(tmpdir(), 'outlast-embedded-'));
  folders.push(folder);
  return folder;
};
afterAll(() => {
  for (const folder of folders) rmSync(folder, { recursive: true, force: true });
});

describe('an embedded database of the application', () => {
  let held: EmbeddedDatabase;
  let db: PGlite;
  let outlast: Outlast<Transaction>;
  const services: Service[] = [];

  beforeAll(async () => {
    const folder = newFolder();
    held = await openEmbedded(folder, { mode: 'own', createIfMissing: true });
    db = held.pglite as PGlite;
    await db.exec(`create table orders (id text primary key, mail text)`);
    outlast = createOutlast({ database: `pglite:${folder}`, adapter: fromPGlite(db) });
    // The process that opens the database first creates the tables.
    await outlast.push(task('embedded.first'));
    services.push(await startRelay(outlast), await startResurrector(outlast));
  });

  afterAll(async () => {
    for (const service of services) await service.stop();
    await outlast.close();
    await held.close();
  });

  const count = async (table: 'orders' | 'outlast_task', id: string): Promise<number> =>
    (await db.query(`select 1 from ${table} where id = $1`, [id])).rows.length;

  it('commits an order and its task together, and the task has its effect in it once', async () => {
    const handler = outlast.handler(order, async ({ id }, ctx) => {
      const mail = await ctx.transaction(async tx => {
        const mailId = `mail of ${id}`;
        await tx.query('update orders set mail = $1 where id = $2', [mailId, id]);
        return mailId;
      });
      return { mailId: mail };
    });
    services.push(await startWorker(outlast, { tasks: [handler] }));
    const sent = await db.transaction(async tx => {
      await tx.query('insert into orders (id) values ($1)', ['17']);
      return await outlast.send(tx, order, { id: '17' });
    });
    expect(await sent.result()).toEqual({ mailId: 'mail of 17' });
    const { rows } = await db.query<{ mail: string }>(`select mail from orders where id = '17'`);
    expect(rows).toEqual([{ mail: 'mail of 17' }]);
  });

  it('has nothing of a task whose transaction was rolled back', async () => {
    let id = '';
    const refused = db.transaction(async tx => {
      await tx.query('insert into orders (id) values ($1)', ['18']);
      id = (await outlast.send(tx, order, { id: '18' })).id;
      throw new Error('no order after all');
    });
    await expect(refused).rejects.toThrow('no order after all');
    expect(await count('orders', '18')).toBe(0);
    expect(await count('outlast_task', id)).toBe(0);
    const found = outlast.find(order, id);
    expect(await found.state()).toBe('unknown');

    const sent = await db.transaction(async tx => {
      const handle = await outlast.send(tx, order, { id: '19' });
      await tx.rollback();
      return handle;
    });
    expect(await sent?.state()).toBe('unknown');
  });

  it('is not a transaction itself, and neither is a transaction that has ended', async () => {
    const refused = { code: 'ERR_NOT_IN_TRANSACTION' };
    const itself = db as unknown as Transaction;
    await expect(outlast.send(itself, order, { id: '20' })).rejects.toMatchObject(refused);
    const over = await db.transaction(tx => Promise.resolve(tx));
    await expect(outlast.send(over, order, { id: '20' })).rejects.toMatchObject(refused);
    await db.transaction(async tx => {
      await tx.rollback();
      await expect(outlast.send(tx, order, { id: '20' })).rejects.toMatchObject(refused);
    });
    for (const end of ['rollback', 'commit'])
      await db.transaction(async tx => {
        await tx.query(end);
        await expect(outlast.send(tx, order, { id: '20' })).rejects.toMatchObject(refused);
        await tx.query('begin');
      });
  });

  it('reports at once that a result cannot exist before the commit', async () => {
    const sent = await db.transaction(async tx => {
      const handle = await outlast.send(tx, order, { id: '21' });
      await expect(handle.result()).rejects.toMatchObject({ code: 'ERR_RESULT_BEFORE_COMMIT' });
      return handle;
    });
    expect(await sent.result()).toEqual({ mailId: 'mail of 21' });
  });
});

describe('an embedded database that only Outlast uses', () => {
  it('needs no adapter, and still has committed tasks when it is opened again', async () => {
    const database = `pglite:${newFolder()}`;
    const first = createOutlast({ database });
    const sent = await first.transaction(tx => first.send(tx, order, { id: '1' }));
    const rolledBack = first.transaction(async tx => {
      await first.send(tx, order, { id: '2' }, { id: 'gone' });
      throw new Error('rolled back');
    });
    await expect(rolledBack).rejects.toThrow('rolled back');
    const over = await first.transaction(async tx => {
      const inside = await first.send(tx, order, { id: '3' });
      await expect(inside.result()).rejects.toMatchObject({ code: 'ERR_RESULT_BEFORE_COMMIT' });
      return tx;
    });
    await expect(first.send(over, order, { id: '4' })).rejects.toMatchObject({
      code: 'ERR_NOT_IN_TRANSACTION',
    });
    await first.close();

    const second = createOutlast({ database });
    const handler = second.handler(order, ({ id }) => ({ mailId: id }));
    const relay = await startRelay(second);
    const worker = await startWorker(second, { tasks: [handler] });
    expect(await second.find(order, sent.id).result()).toEqual({ mailId: '1' });
    expect(await second.find(order, 'gone').state()).toBe('unknown');
    await Promise.all([relay.stop(), worker.stop()]);
    await second.close();
  });
});
