import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { unique } from '../conformance/envelopes.ts';
import { CeleryControl, type CeleryTarget } from '../interop/celery-kit.ts';
import { CliProject, SHOP } from '../support/cli-project.ts';
import { migratedDatabase, until, type MigratedDatabase } from '../support/database.ts';
import { rabbitmqUrl, redisUrl } from '../support/servers.ts';

let database: MigratedDatabase;
let project: CliProject;
let control: CeleryControl;

beforeAll(async () => {
  database = await migratedDatabase('fleet_cli');
  const url = rabbitmqUrl();
  project = new CliProject(SHOP, { OUTLAST_DATABASE_URL: database.url, OUTLAST_BROKER_URL: url });
  const target: CeleryTarget = { broker: url, backend: redisUrl() };
  control = new CeleryControl(target);
});

afterAll(async () => {
  await control.close();
  await project.dispose();
  await database.dispose();
});

/** The processes that are open in the ledger, with their hosts. */
async function openProcesses(): Promise<readonly { pid: number; host: string }[]> {
  const text = `select pid, host from outlast_worker where state = 'open' order by pid`;
  return (await database.pool.query<{ pid: number; host: string }>(text)).rows;
}

describe('outlast worker, shut down by Celery remote control', () => {
  it('does not replace processes that were shut down, and exits with the last one', async () => {
    const queues = unique('fleet');
    const worker = project.start(['worker', '--processes', '2', '--queues', queues]);
    const processes = await until(async () => {
      const open = await openProcesses();
      return open.length === 2 && open;
    });
    const [first, second] = processes.map(({ pid, host }) => `outlast-${pid}@${host}`);
    const shutDown = (node = ''): Promise<unknown> => until(() => control.ask(node, 'shutdown'));
    expect(await shutDown(first)).toEqual({ ok: 'draining' });
    await until(async () => (await openProcesses()).length === 1);
    expect(await until(() => control.ask(second ?? '', 'ping'))).toEqual({ ok: 'pong' });
    expect(await openProcesses()).toEqual(processes.slice(1));
    expect(await shutDown(second)).toEqual({ ok: 'draining' });
    // It would not exit if the first process had been replaced.
    expect(await worker.ended).toMatchObject({ code: 0, signal: null });
    expect(await openProcesses()).toEqual([]);
  });
});
