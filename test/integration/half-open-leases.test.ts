import { afterAll, beforeAll, describe, expect, it, type TestContext } from 'vitest';
import { createOutlast, startRelay, type OutlastConfig } from '../../src/index.ts';
import { unique } from '../conformance/envelopes.ts';
import {
  gate,
  migratedDatabase,
  migratedMariadb,
  until,
  type MigratedDatabase,
  type MigratedMariadb,
} from '../support/database.ts';
import { redisUrl } from '../support/servers.ts';
import { TcpProxy } from '../support/tcp-proxy.ts';

let postgres: MigratedDatabase;
let mariadb: MigratedMariadb;
beforeAll(async () => {
  postgres = await migratedDatabase('halfopenleases');
  mariadb = await migratedMariadb('halfopenleases');
});
afterAll(async () => {
  await postgres.dispose();
  await mariadb.dispose();
});

async function proxyTo(url: string, { onTestFinished }: TestContext): Promise<TcpProxy> {
  const proxy = await TcpProxy.to(url);
  onTestFinished(() => proxy.close());
  return proxy;
}

function outlastOn(config: OutlastConfig, { onTestFinished }: TestContext) {
  const outlast = createOutlast(config);
  onTestFinished(() => outlast.close());
  return outlast;
}

// They wait for leases, so they may wait at the same time.
describe.concurrent('a lock whose connections are half open', () => {
  it.for([
    ['PostgreSQL', () => postgres.url, (database: string) => ({ database })],
    ['Redis', () => redisUrl(), (broker: string) => ({ database: postgres.url, broker })],
  ] as const)('is kept through another connection, on %s', async ([, urlOf, configOf], test) => {
    const proxy = await proxyTo(urlOf(), test);
    const outlast = outlastOn(configOf(proxy.url(urlOf())), test);
    const warm = Array.from({ length: 8 }, () =>
      outlast.idempotencyLock(unique('warm'), '1m', () => 1),
    );
    await Promise.all(warm);
    const key = unique('lock');
    const [inside, goesOn] = [gate(), gate()];
    const locked = outlast.idempotencyLock(key, '1h', async signal => {
      signal.addEventListener('abort', () => goesOn.open());
      inside.open();
      await goesOn.opened;
      return signal.aborted ? 'lost' : 'kept';
    });
    await inside.opened;
    proxy.freeze();
    const other = outlastOn(configOf(urlOf()), test);
    // Longer than a lease lasts.
    const waiting = other.idempotencyLock(key, '1h', () => 'taken', { wait: '6s' });
    await expect(waiting).rejects.toMatchObject({ code: 'ERR_RESULT_TIMEOUT' });
    goesOn.open();
    expect(await locked).toEqual({ value: 'kept', ran: true });
    expect(await other.idempotencyLock(key, '1h', () => 'taken')).toEqual({
      value: 'kept',
      ran: false,
    });
    proxy.cut();
  });
});

describe.concurrent('a relay whose connections are half open', () => {
  const leaseOf = {
    PostgreSQL: async () =>
      (
        await postgres.pool.query<{ end: string; left: string }>(
          `select extract(epoch from lease_until)::text as end, extract(epoch from lease_until - clock_timestamp())::text as left
           from outlast_relay`,
        )
      ).rows[0],
    MariaDB: async () => {
      const [rows] = await mariadb.pool.query(
        `select unix_timestamp(lease_until) as \`end\`, timestampdiff(microsecond, utc_timestamp(6), lease_until) as \`left\`
         from outlast_relay`,
      );
      return (rows as { readonly end: string; readonly left: string }[])[0];
    },
  };

  it.for([
    ['PostgreSQL', () => postgres.url],
    ['MariaDB', () => mariadb.url],
  ] as const)('renews its lease through another connection, on %s', async ([name, urlOf], test) => {
    const proxy = await proxyTo(urlOf(), test);
    const outlast = outlastOn({ database: proxy.url(urlOf()), broker: redisUrl() }, test);
    const relay = await startRelay(outlast);
    test.onTestFinished(async () => {
      proxy.cut();
      await relay.stop();
    });
    const before = await until(leaseOf[name]);
    proxy.freeze();
    await until(async () => {
      const lease = await leaseOf[name]();
      expect(Number(lease?.left)).toBeGreaterThan(0);
      return Number(lease?.end) - Number(before.end) > 3;
    });
  });
});
