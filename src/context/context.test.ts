import { describe, expect, it, onTestFinished, vi } from 'vitest';
import { VirtualTime } from '../testing/virtual-time.ts';
import { postgresDatabase } from '../adapters/postgres/dialect.ts';
import type { PostgresDatabase } from '../adapters/postgres/postgres-database.ts';
import type { OutlastConfig } from '../config/config.ts';
import { silentLogger } from '../telemetry/logger.ts';
import { openContext, type Context, type ContextOptions } from './context.ts';
import { OPENERS, type Openers } from './openers.ts';
import { CLOSE_TIMEOUT_MS } from './resources.ts';

const POSTGRES = 'postgres://127.0.0.1:1/shop';
const MYSQL = 'mysql://127.0.0.1:1/shop';
const RABBITMQ = 'amqp://127.0.0.1:1';
const REDIS = 'redis://127.0.0.1:1';
const OUTBOXES = { crm: { database: 'postgres://127.0.0.1:1/crm' } };

/** A database that rejects every query: opening a context sends none. */
const silentDatabase = (close: () => Promise<void>): PostgresDatabase => ({
  query: () => Promise.reject(new Error('no query is expected here')),
  transaction: () => Promise.reject(new Error('no query is expected here')),
  listen: () => () => undefined,
  close,
});

/**
 * Brokers and ledgers are the real ones, which connect on first use. Databases connect at once, so they are stand-ins.
 * `journal` lists what was opened and closed, in order.
 */
function recorder(over: (openers: Openers) => Partial<Openers> = () => ({})) {
  const journal: string[] = [];
  const closing = <T extends { close(): Promise<void> }>(name: string, one: T): T => {
    journal.push(`+${name}`);
    const close = one.close.bind(one);
    return Object.assign(one, {
      close: async () => {
        journal.push(`-${name}`);
        await close();
      },
    });
  };
  const openers: Openers = {
    database: async target => {
      const name = target.url.endsWith('/crm') ? 'crm' : 'database';
      return closing(name, postgresDatabase(silentDatabase(async () => undefined)));
    },
    broker: async parts => closing('broker', await OPENERS.broker(parts)),
    ledger: async options => closing('ledger', await OPENERS.ledger(options)),
  };
  return { journal, openers: { ...openers, ...over(openers) } };
}

function setup(file: OutlastConfig, openers: Openers, more: ContextOptions = {}): Context {
  const context = openContext(file, { env: {}, openers, ...more });
  onTestFinished(() => context.close());
  return context;
}

describe('a context', () => {
  it.each([
    ['PGlite', { database: 'pglite:./none' }, ['database']],
    ['PostgreSQL', { database: POSTGRES }, ['database']],
    ['RabbitMQ', { database: POSTGRES, broker: RABBITMQ }, ['database', 'broker']],
    ['Redis', { database: POSTGRES, broker: REDIS }, ['database', 'broker', 'ledger']],
    [
      'RabbitMQ and Redis',
      { database: POSTGRES, broker: RABBITMQ, ledger: REDIS },
      ['database', 'broker', 'ledger'],
    ],
    [
      'a Redis Cluster',
      { database: POSTGRES, broker: RABBITMQ, ledger: 'redis+cluster://127.0.0.1:1' },
      ['database', 'broker', 'ledger'],
    ],
    ['MySQL and Redis', { database: MYSQL, broker: REDIS }, ['database', 'broker', 'ledger']],
    ['an additional outbox', { database: POSTGRES, outboxes: OUTBOXES }, ['database']],
  ] satisfies [string, OutlastConfig, string[]][])(
    'opens each store when it is first needed and closes all in reverse order, with %s',
    async (_, file, parts) => {
      const { journal, openers } = recorder();
      const context = setup(file, openers);
      expect(journal).toEqual([]);
      await context.outboxDatabase();
      expect(journal).toEqual(['+database']);
      const stores = await context.stores();
      const opened = parts.map(part => `+${part}`);
      expect(journal).toEqual(opened);
      expect(await context.stores()).toBe(stores);
      await Promise.all([context.adminStores(), context.results(), context.checkpoints()]);
      expect(journal).toEqual(opened);
      await context.close();
      expect(journal).toEqual([...opened, ...parts.toReversed().map(part => `-${part}`)]);
    },
  );

  it('opens only the named outbox for a send, and the other stores when they are needed', async () => {
    const { journal, openers } = recorder();
    const file = { database: POSTGRES, broker: RABBITMQ, outboxes: OUTBOXES };
    const context = setup(file, openers, { outbox: 'crm' });
    const { outbox } = await context.outboxDatabase();
    expect(journal).toEqual(['+crm']);
    expect((await context.adminStores()).outbox).toBe(outbox);
    expect((await context.stores()).outbox).not.toBe(outbox);
    await context.close();
    expect(journal).toEqual(['+crm', '+database', '+broker', '-broker', '-database', '-crm']);
  });

  it('closes nothing when it was never used, and stays closed', async () => {
    const { journal, openers } = recorder();
    const context = setup({ database: POSTGRES }, openers);
    await Promise.all([context.close(), context.close()]);
    await expect(context.stores()).rejects.toMatchObject({ code: 'ERR_CLOSED' });
    await expect(context.outboxDatabase()).rejects.toMatchObject({ code: 'ERR_CLOSED' });
    expect(journal).toEqual([]);
  });

  it('closes each store once when it is closed twice', async () => {
    const { journal, openers } = recorder();
    const context = setup({ database: POSTGRES, broker: REDIS }, openers);
    await context.stores();
    await Promise.all([context.close(), context.close()]);
    await context.close();
    await expect(context.stores()).rejects.toMatchObject({ code: 'ERR_CLOSED' });
    expect(journal.slice(3)).toEqual(['-ledger', '-broker', '-database']);
  });

  it('rejects when the third store cannot be opened, keeps the others for the next attempt, and closes them', async () => {
    let attempts = 0;
    const { journal, openers } = recorder(real => ({
      ledger: async options => {
        if (++attempts < 3) throw new Error('no such server');
        return await real.ledger(options);
      },
    }));
    const file = { database: POSTGRES, broker: REDIS };
    const [failed, recovered] = [setup(file, openers), setup(file, openers)];
    await expect(failed.stores()).rejects.toThrow('no such server');
    await failed.close();
    expect(journal.splice(0)).toEqual(['+database', '+broker', '-broker', '-database']);
    await expect(recovered.stores()).rejects.toThrow('no such server');
    await recovered.stores();
    expect(journal).toEqual(['+database', '+broker', '+ledger']);
  });

  it('closes while the third store does not answer, and closes that store when it answers', async () => {
    const time = new VirtualTime();
    let answer: () => void = () => undefined;
    const answered = new Promise<void>(resolve => (answer = resolve));
    const { journal, openers } = recorder(real => ({
      ledger: async options => {
        await answered;
        return await real.ledger(options);
      },
    }));
    const { clock } = time;
    const context = setup({ database: POSTGRES, broker: REDIS }, openers, { runtime: { clock } });
    const opening = context.stores();
    await vi.waitFor(() => expect(journal).toEqual(['+database', '+broker']), { timeout: 60_000 });
    const closing = context.close();
    await time.runUntil(CLOSE_TIMEOUT_MS);
    await closing;
    expect(journal).toEqual(['+database', '+broker', '-broker', '-database']);
    answer();
    await opening;
    await new Promise(setImmediate);
    expect(journal.slice(4)).toEqual(['+ledger', '-ledger']);
  });
});

describe('the context of a service', () => {
  const RABBIT_ON_FOLDER = { database: 'pglite:./none', broker: RABBITMQ };

  it('has connections of its own, which are closed with it', async () => {
    const { journal, openers } = recorder();
    const context = setup({ database: POSTGRES, broker: RABBITMQ }, openers);
    await context.stores();
    const service = context.forService({ relay: {} });
    await service.stores();
    expect(journal.splice(0)).toEqual(['+database', '+broker', '+database', '+broker']);
    await service.close();
    expect(journal).toEqual(['-broker', '-database']);
    await context.stores();
  });

  it('shares the one handle of an embedded database, and nothing else', async () => {
    const { journal, openers } = recorder();
    const context = setup(RABBIT_ON_FOLDER, openers);
    const service = context.forService({ worker: {} });
    const stores = await service.stores();
    expect(journal.splice(0)).toEqual(['+database', '+broker']);
    expect((await context.stores()).db).toBe(stores.db);
    await service.close();
    expect(journal.splice(0)).toEqual(['+broker', '-broker']);
    await context.close();
    expect(journal).toEqual(['-broker', '-database']);
  });

  it('judges workers on an embedded database by the leases that they hold there', () => {
    const leaseOf = (config: OutlastConfig, flags: Parameters<Context['forService']>[0]): number =>
      setup(config, recorder().openers).forService(flags).config.worker.leaseMs;
    const embedded = { database: 'pglite:./none' };
    expect(leaseOf(embedded, { resurrector: {} })).toBe(30_000);
    expect(leaseOf(embedded, { worker: {} })).toBe(30_000);
    expect(leaseOf({ ...embedded, worker: { lease: '7s' } }, { resurrector: {} })).toBe(7_000);
    expect(leaseOf({ database: POSTGRES }, { resurrector: {} })).toBe(5_000);
  });

  it('has the options it was given, also on an embedded database', () => {
    const context = setup(RABBIT_ON_FOLDER, recorder().openers);
    const service = context.forService({ worker: { concurrency: 7 } });
    expect(service.config.worker.concurrency).toBe(7);
    expect(context.config.worker.concurrency).not.toBe(7);
  });

  it('logs no warning a second time', () => {
    const warned: string[] = [];
    const log = { ...silentLogger, warn: (_: object, text: string) => void warned.push(text) };
    const production = { NODE_ENV: 'production' };
    const context = openContext({}, { env: production, makeLog: () => log });
    expect(warned).toEqual([expect.stringContaining('no database is named')]);
    context.forService({ relay: {} });
    openContext({}, { env: production, makeLog: () => log, isWarned: true });
    expect(warned).toHaveLength(1);
  });
});
