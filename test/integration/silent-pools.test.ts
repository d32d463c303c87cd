import { createPool as createMariadbPool } from 'mariadb';
import { createPool as createMysql2Pool } from 'mysql2/promise';
import { Pool } from 'pg';
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from 'vitest';
import { createOutlast, startWorker, task } from '../../dist/index.js';
import { fromMariadb } from '../../src/adapters/transactions/mariadb.ts';
import { fromMysql2 } from '../../src/adapters/transactions/mysql2.ts';
import { fromPg } from '../../src/adapters/transactions/pg.ts';
import type { TransactionAdapter } from '../../src/outbox/transaction-adapter.ts';
import { unique } from '../conformance/envelopes.ts';
import {
  gate,
  migratedDatabase,
  migratedMariadb,
  type MigratedDatabase,
  type MigratedMariadb,
} from '../support/database.ts';
import { TcpProxy } from '../support/tcp-proxy.ts';

let postgres: MigratedDatabase;
let mariadb: MigratedMariadb;

beforeAll(async () => {
  [postgres, mariadb] = await Promise.all([migratedDatabase('pools'), migratedMariadb('pools')]);
});
afterAll(async () => void (await Promise.all([postgres.dispose(), mariadb.dispose()])));

const AWAY = { code: 'ERR_STORE_UNAVAILABLE' };
/** For what must fail. What must not has the default: the machine may be busy. */
const SHORT = { answerTimeout: '300ms' } as const;

/** A pool of one connection, as the application has it. */
interface OnePool {
  readonly longLimit: TransactionAdapter<unknown>;
  readonly shortLimit: TransactionAdapter<unknown>;
}

const POOLS: Readonly<Record<string, () => { url: string; open: (url: string) => OnePool }>> = {
  pg: () => ({
    url: postgres.url,
    open: url => {
      const pool = new Pool({ connectionString: url, max: 1 });
      pool.on('error', () => undefined);
      onTestFinished(() => pool.end());
      return { longLimit: fromPg(pool), shortLimit: fromPg(pool, SHORT) };
    },
  }),
  mysql2: () => ({
    url: mariadb.url,
    open: url => {
      const pool = createMysql2Pool({ uri: url, connectionLimit: 1 });
      // It would say farewell to a server that does not answer.
      onTestFinished(() => void pool.end().catch(() => undefined));
      return {
        longLimit: fromMysql2(pool),
        shortLimit: fromMysql2(pool, SHORT),
      };
    },
  }),
  mariadb: () => ({
    url: mariadb.url,
    open: url => {
      const { hostname: host, port, username: user, pathname } = new URL(url);
      const database = pathname.slice(1);
      const limits = { connectionLimit: 1, acquireTimeout: 60_000 };
      const pool = createMariadbPool({ host, port: Number(port), user, database, ...limits });
      onTestFinished(() => void pool.end().catch(() => undefined));
      return {
        longLimit: fromMariadb(pool),
        shortLimit: fromMariadb(pool, SHORT),
      };
    },
  }),
};

describe.each(Object.entries(POOLS))('a pool of %s', (_, poolOf) => {
  it('that has no connection left fails a transaction in time, and keeps none that comes later', async () => {
    const { url, open } = poolOf();
    const { longLimit, shortLimit } = open(url);
    const [held, goesOn] = [gate(), gate()];
    const holding = longLimit.transaction(async () => {
      held.open();
      await goesOn.opened;
    });
    await held.opened;
    await expect(shortLimit.transaction(async () => 'begun')).rejects.toMatchObject(AWAY);
    goesOn.open();
    await holding;
    expect(await longLimit.transaction(async () => 'begun')).toBe('begun');
  });

  it.each(['BEGIN', 'a statement of ours', 'COMMIT', 'ROLLBACK'])(
    'whose server falls silent before %s fails the transaction in time, and uses another connection',
    async before => {
      const { url, open } = poolOf();
      const proxy = await TcpProxy.to(url);
      onTestFinished(() => proxy.close());
      const { longLimit, shortLimit } = open(proxy.url(url));
      await longLimit.transaction(async tx => await longLimit.execute(tx, 'select 1', []));
      const own = new Error('its own');
      if (before === 'BEGIN') proxy.silence();
      const ended = shortLimit.transaction(async tx => {
        proxy.silence();
        if (before === 'a statement of ours') await shortLimit.execute(tx, 'select 1', []);
        if (before === 'ROLLBACK') throw own;
      });
      const failure: unknown = await ended.catch((error: unknown) => error);
      // Also here BEGIN itself may have come too late, on a busy machine.
      if (failure !== own) expect(failure).toMatchObject(AWAY);
      proxy.speak();
      expect(await longLimit.transaction(async () => 'begun')).toBe('begun');
    },
  );
});

describe('a task whose effect finds no connection in the pool', () => {
  it('is given back, and runs when there is one, without having failed', async () => {
    const pool = new Pool({ connectionString: postgres.url, max: 1 });
    onTestFinished(() => pool.end());
    const adapter = fromPg(pool, { answerTimeout: '1s' });
    const outlast = createOutlast({ database: postgres.url, adapter });
    onTestFinished(() => outlast.close());
    const queue = unique('pools');
    const pay = task(unique('pools.pay'), { queue });
    const refused = gate<unknown>();
    const attempts: number[] = [];
    const handler = outlast.handler(pay, {
      retry: { maxAttempts: 1 },
      run: async (__, ctx) => {
        attempts.push(ctx.attempt);
        await ctx
          .transaction(async tx => void (await tx.query('select 1')))
          .catch((error: unknown) => {
            refused.open(error);
            throw error;
          });
      },
    });
    const client = await pool.connect();
    let isHeld = true;
    const release = (): void => {
      if (isHeld) client.release();
      isHeld = false;
    };
    onTestFinished(release);
    const worker = await startWorker(outlast, { tasks: [handler], queues: [queue] });
    onTestFinished(() => worker.stop());
    const sent = await outlast.push(pay);
    expect(await refused.opened).toMatchObject(AWAY);
    release();
    await sent.result();
    expect(new Set(attempts)).toEqual(new Set([1]));
  });
});
