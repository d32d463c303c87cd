import { afterAll, beforeAll, expect, it } from 'vitest';
import { unique } from '../conformance/envelopes.ts';
import { CliProject, json } from '../support/cli-project.ts';
import { migratedDatabase, until, type MigratedDatabase } from '../support/database.ts';
import { RabbitInspector } from '../support/rabbit-inspector.ts';
import { rabbitmqUrl } from '../support/servers.ts';

const QUEUE = unique('queue');

/** The first run of every task ends with its process. */
const PROJECT = {
  'outlast.config.mjs': `
    import { defineConfig } from 'outlast';
    export default defineConfig({ tasks: ['./handlers.mjs'], worker: { queues: ['${QUEUE}'], processes: 2 } });`,
  'handlers.mjs': `
    import pg from 'pg';
    import { createOutlast, task, unchecked } from 'outlast';
    import { fromPg } from 'outlast/pg';
    import config from './outlast.config.mjs';
    const pool = new pg.Pool({ connectionString: process.env.OUTLAST_DATABASE_URL });
    const outlast = createOutlast({ ...config, adapter: fromPg(pool) });
    const deadly = task('chaos.deadly', {
      queue: '${QUEUE}', args: unchecked(), kwargs: unchecked(), result: unchecked(),
    });
    export const deadlyHandler = outlast.handler(deadly, async (_, { id, resurrections }) => {
      await pool.query('insert into run values ($1, $2)', [id, resurrections]);
      if (resurrections === 0) process.kill(process.pid, 'SIGKILL');
      return resurrections;
    });`,
};

let database: MigratedDatabase;
let project: CliProject;
let rabbit: RabbitInspector;

beforeAll(async () => {
  database = await migratedDatabase('rabbitworker');
  await database.pool.query('create table run (id text, resurrections int)');
  rabbit = await RabbitInspector.connect();
  project = new CliProject(PROJECT, {
    OUTLAST_DATABASE_URL: database.url,
    OUTLAST_BROKER_URL: rabbitmqUrl(),
  });
});

afterAll(async () => {
  await project.dispose();
  await rabbit.close();
  await database.dispose();
});

it('killed in the middle of its tasks: RabbitMQ delivers copies, and the ledger brings the tasks back', async () => {
  const relay = project.start(['relay']);
  const worker = project.start(['worker']);
  const ids = [];
  for (let n = 0; n < 3; n++)
    ids.push(json<{ id: string }>((await project.run('send', 'chaos.deadly', '--json')).stdout).id);
  const rows = await until(async () => {
    const text = `select id, state, crashes from outlast_task where state = 'done' order by id`;
    const found = await database.pool.query<{ id: string; crashes: number }>(text);
    return found.rows.length === ids.length && found.rows;
  });
  expect(rows.map(({ id }) => id)).toEqual(ids.toSorted());
  // The copies that the broker delivered again were acknowledged, and none of them ran.
  await until(async () => (await rabbit.depth(QUEUE)) === 0);
  const { rows: runs } = await database.pool.query<{ id: string; resurrections: number }>(
    'select id, resurrections from run order by id, resurrections',
  );
  for (const id of ids)
    expect(runs.filter(run => run.id === id).map(run => run.resurrections)[0]).toBe(0);
  expect(new Set(runs.map(run => `${run.id} ${run.resurrections}`)).size).toBe(runs.length);
  expect((await worker.stop()).code).toBe(0);
  expect((await relay.stop()).code).toBe(0);
}, 60_000);
