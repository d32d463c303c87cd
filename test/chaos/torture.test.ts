import { fileURLToPath } from 'node:url';
import { describe, expect, it, type TestContext } from 'vitest';
import { unique } from '../conformance/envelopes.ts';
import { startPostgres } from '../support/postgres-server.ts';
import { startRedis } from '../support/redis-server.ts';
import { rabbitmqUrl, withDatabase } from '../support/servers.ts';
import {
  Torture,
  type TorturePlan,
  type TortureReport,
  type TortureServers,
} from '../torture/torture.ts';

const repo = fileURLToPath(new URL('../../', import.meta.url)).replace(/\/$/, '');

async function torture(
  servers: Omit<TortureServers, 'database'> & { readonly database?: string },
  { onTestFinished }: TestContext,
  faults: Pick<TorturePlan, 'kills' | 'crashes'> = { kills: 8 },
): Promise<TortureReport> {
  const database = await withDatabase('torture');
  onTestFinished(() => database.drop());
  const lines: string[] = [];
  const plan = {
    tasks: 600,
    ...faults,
    rate: 60,
    seed: 7,
    healMs: 60_000,
    repo,
    say: (line: string) => void lines.push(line),
  };
  const report = await new Torture(plan, { database: database.url, ...servers }).run();
  expect(lines).toEqual([]);
  return report;
}

/** A short form of `npm run torture`, so that every test run has seen real processes die at random. */
describe.concurrent('a fleet', () => {
  const title =
    'loses nothing and has no effect twice while relays, workers and resurrectors are killed at random';

  it(`${title}, on PostgreSQL`, async test => {
    const report = await torture({ queue: 'torture' }, test);
    expect(report.violations).toEqual([]);
    expect(report.verdict).toMatchObject({ committed: 600, done: 600, lost: 0 });
    expect(report.rolledBack).toBeGreaterThan(0);
  });

  it('loses nothing and has no effect twice while its PostgreSQL is stopped at once', async test => {
    const server = await startPostgres();
    test.onTestFinished(() => server.dispose());
    const faults = { kills: 0, crashes: 4 };
    const report = await torture({ database: server.url, server, queue: 'torture' }, test, faults);
    expect(report.violations).toEqual([]);
    expect(report.crashes).toBe(4);
    expect(report.verdict.committed).toBeGreaterThan(0);
    expect(report.verdict.done).toBe(report.verdict.committed);
  });

  it(`${title}, on RabbitMQ and Redis`, async test => {
    const redis = await startRedis();
    test.onTestFinished(() => redis.dispose());
    const servers = { broker: rabbitmqUrl(), ledger: redis.url, queue: unique('torture') };
    const report = await torture(servers, test);
    expect(report.violations).toEqual([]);
    expect(report.verdict).toMatchObject({ committed: 600, done: 600, lost: 0 });
  });
});
