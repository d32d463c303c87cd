import { afterAll, beforeAll, expect, it, onTestFinished } from 'vitest';
import { unique } from '../conformance/envelopes.ts';
import { CliProject } from '../support/cli-project.ts';
import { migratedDatabase, type MigratedDatabase } from '../support/database.ts';
import { RabbitInspector } from '../support/rabbit-inspector.ts';
import { rabbitmqUrl } from '../support/servers.ts';
import { pythonMessage, rabbitIntruder } from './intruder.ts';

let database: MigratedDatabase;

beforeAll(async () => {
  database = await migratedDatabase('move');
});
afterAll(() => database.dispose());

it('a move with its URL in the environment puts no unsigned message into the outbox', async () => {
  const queue = unique('left');
  const config = `export default { worker: { queues: ['${queue}'] } };`;
  const project = new CliProject({ 'outlast.config.mjs': config }, {});
  const rabbit = await RabbitInspector.connect();
  const intruder = await rabbitIntruder();
  onTestFinished(async () => {
    await intruder.close();
    await rabbit.delete(queue);
    await rabbit.close();
    await project.dispose();
  });
  await rabbit.with(channel => channel.assertQueue(queue));
  const id = unique('forged');
  await intruder.put(queue, pythonMessage('shop.pay', id));
  const env = {
    OUTLAST_DATABASE_URL: database.url,
    OUTLAST_SIGNING_KEYS: `k:${'ab'.repeat(32)}`,
    OUTLAST_FROM_BROKER_URL: rabbitmqUrl(),
  };
  const { code, stdout } = await project.runWith(env, 'move', '--json');
  expect([code, JSON.parse(stdout)]).toMatchObject([0, { status: 'done', messages: 0 }]);
  expect(await rabbit.depth(queue)).toBe(0);
  const of = async (text: string): Promise<readonly unknown[]> =>
    (await database.pool.query<Record<string, unknown>>(text)).rows;
  expect(await of('select task_id from outlast_outbox')).toEqual([]);
  expect(await of('select id, reason from outlast_task')).toEqual([
    { id: expect.stringContaining(`${id}#`) as string, reason: 'ERR_DIGEST' },
  ]);
});
