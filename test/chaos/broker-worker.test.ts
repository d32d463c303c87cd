import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { RedisConnection } from '../../src/adapters/redis/redis-connection.ts';
import { unique } from '../conformance/envelopes.ts';
import { CliProject, json } from '../support/cli-project.ts';
import { migratedDatabase, until, type MigratedDatabase } from '../support/database.ts';
import { RabbitInspector } from '../support/rabbit-inspector.ts';
import { startRedis } from '../support/redis-server.ts';
import { rabbitmqUrl } from '../support/servers.ts';

/** The first run of every task ends with its process. */
const projectOn = (queue: string) => ({
  'outlast.config.mjs': `
    import { defineConfig } from 'outlast';
    export default defineConfig({ tasks: ['./handlers.mjs'], worker: { queues: ['${queue}'], processes: 2 } });`,
  'handlers.mjs': `
    import pg from 'pg';
    import { createOutlast, task, unchecked } from 'outlast';
    import { fromPg } from 'outlast/pg';
    import config from './outlast.config.mjs';
    const pool = new pg.Pool({ connectionString: process.env.OUTLAST_DATABASE_URL });
    const outlast = createOutlast({ ...config, adapter: fromPg(pool) });
    const deadly = task('chaos.deadly', {
      queue: '${queue}', args: unchecked(), kwargs: unchecked(), result: unchecked(),
    });
    export const deadlyHandler = outlast.handler(deadly, async (_, { id, resurrections }) => {
      await pool.query('insert into run values ($1, $2)', [id, resurrections]);
      if (resurrections === 0) process.kill(process.pid, 'SIGKILL');
      return resurrections;
    });`,
});

interface Servers {
  readonly broker: string;
  /** How many messages the broker still has. */
  depth(queue: string): Promise<number>;
  close(): Promise<void>;
}

async function onRabbit(): Promise<Servers> {
  const rabbit = await RabbitInspector.connect();
  return {
    broker: rabbitmqUrl(),
    depth: async queue => (await rabbit.depth(queue)) ?? 0,
    close: () => rabbit.close(),
  };
}

/** Ledger and results are there too. */
async function onRedis(): Promise<Servers> {
  const server = await startRedis();
  const redis = await RedisConnection.open({ url: server.url, role: 'broker', name: 'test' });
  return {
    broker: server.url,
    depth: async queue => Number(await redis.command('llen', queue)),
    close: async () => {
      redis.close();
      await server.dispose();
    },
  };
}

describe.each([
  ['RabbitMQ', onRabbit],
  ['Redis', onRedis],
] as const)('a worker on %s', (_, open) => {
  const queue = unique('queue');
  let database: MigratedDatabase;
  let project: CliProject;
  let servers: Servers;

  beforeAll(async () => {
    [database, servers] = [await migratedDatabase('brokerworker'), await open()];
    await database.pool.query('create table run (id text, resurrections int)');
    project = new CliProject(projectOn(queue), {
      OUTLAST_DATABASE_URL: database.url,
      OUTLAST_BROKER_URL: servers.broker,
    });
  });

  afterAll(async () => {
    await project.dispose();
    await servers.close();
    await database.dispose();
  });

  it('killed while it runs tasks gets copies redelivered, and the ledger brings the tasks back', async () => {
    const relay = project.start(['relay']);
    const worker = project.start(['worker']);
    const ids: string[] = [];
    for (let n = 0; n < 2; n++)
      ids.push(
        json<{ id: string }>((await project.run('send', 'chaos.deadly', '--json')).stdout).id,
      );
    const ended = await Promise.all(ids.map(id => project.run('result', id, '--wait', '20')));
    for (const { code } of ended) expect(code).toBe(0);
    // The redelivered copies were acknowledged, and none of them ran.
    await until(async () => (await servers.depth(queue)) === 0);
    const { rows: runs } = await database.pool.query<{ id: string; resurrections: number }>(
      'select id, resurrections from run order by id, resurrections',
    );
    expect(new Set(runs.map(({ id }) => id))).toEqual(new Set(ids));
    // Tasks whose process was killed by a neighbour before they wrote anything have no first line.
    expect(runs.some(({ resurrections }) => resurrections === 0)).toBe(true);
    // A late first run may kill a neighbour that runs again already.
    const again = runs.filter(({ resurrections }) => resurrections > 0);
    expect(new Set(again.map(({ id }) => id))).toEqual(new Set(ids));
    // No copy ran beside them.
    expect(new Set(runs.map(run => `${run.id} ${run.resurrections}`)).size).toBe(runs.length);
    expect((await worker.stop()).code).toBe(0);
    expect((await relay.stop()).code).toBe(0);
  });
});
