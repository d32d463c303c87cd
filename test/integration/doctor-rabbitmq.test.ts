import { connect } from 'amqplib';
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from 'vitest';
import { checkDeliveryLimit } from '../../src/adapters/rabbitmq/delivery-limit.ts';
import { checkRabbit } from '../../src/adapters/rabbitmq/rabbitmq-checkup.ts';
import type { DoctorReport } from '../../src/admin/doctor.ts';
import { parseAmqpUrl } from '../../src/config/amqp-url.ts';
import type { Check } from '../../src/telemetry/checkup.ts';
import { CliProject, json, type Ended } from '../support/cli-project.ts';
import { migratedDatabase, until, type MigratedDatabase } from '../support/database.ts';
import { startRabbit, type OwnRabbit } from '../support/rabbit-server.ts';

let rabbit: OwnRabbit;
let database: MigratedDatabase;
let project: CliProject;

beforeAll(async () => {
  rabbit = await startRabbit();
  database = await migratedDatabase('doctor_rabbitmq');
  project = new CliProject(
    { 'outlast.config.mjs': `export default { worker: { queues: ['here', 'missing'] } };` },
    { OUTLAST_DATABASE_URL: database.url, OUTLAST_BROKER_URL: rabbit.url },
  );
}, 120_000);

afterAll(async () => {
  await project.dispose();
  await database.dispose();
  await rabbit.dispose();
});

/** A queue as Celery declares it, with so many messages. */
async function declare(queue: string, messages: number): Promise<void> {
  const connection = await connect(rabbit.url);
  const channel = await connection.createConfirmChannel();
  await channel.assertQueue(queue, { durable: true });
  await channel.assertExchange(queue, 'direct', { durable: true });
  await channel.bindQueue(queue, queue, queue);
  await channel.purgeQueue(queue);
  for (let n = 0; n < messages; n++) channel.sendToQueue(queue, Buffer.from('{}'));
  await channel.waitForConfirms();
  await connection.close();
}

const checked = (url: string, queues: readonly string[], taken: readonly string[] = []) =>
  checkRabbit({
    hosts: parseAmqpUrl(url, 'broker'),
    queues,
    taken: new Set(taken),
    paused: new Set(['paused']),
  });

const states = (checks: readonly Check[]): string[] =>
  checks.map(({ name, status }) => `${name} ${status}`);

describe('a doctor who looks at RabbitMQ', () => {
  it('reports queues that are missing, and messages that no worker takes', async () => {
    await declare('here', 0);
    expect(states(await checked(rabbit.url, ['here', 'missing']))).toEqual([
      'connection ok',
      'alarms ok',
      'queues ok',
      'topology ok',
      'topology advice',
    ]);
    await declare('here', 3);
    const [, , lying] = await checked(rabbit.url, ['here']);
    expect(lying).toMatchObject({
      name: 'queues',
      status: 'problem',
      details: { queue: 'here', messages: 3, consumers: 0 },
    });
    // A worker that is busy has shut its window for a moment.
    expect(states(await checked(rabbit.url, ['here'], ['here']))).toContain('queues ok');
    await declare('paused', 1);
    expect(states(await checked(rabbit.url, ['paused']))).toContain('queues advice');
    const { code, stdout } = await project.run('doctor', '--json');
    expect(code).toBe(6);
    const { checks } = json<DoctorReport>(stdout);
    expect(checks.filter(({ target }) => target === 'broker').map(({ name }) => name)).toContain(
      'alarms',
    );
  });

  it('reports delivery limits of quorum queues, and declares nothing to see them', async () => {
    const connection = await connect(rabbit.url);
    onTestFinished(() => connection.close());
    const channel = await connection.createChannel();
    const limits = { low: 5, usual: 20, high: 1_000, endless: undefined };
    for (const [queue, limit] of Object.entries(limits)) {
      const quorum = { 'x-queue-type': 'quorum', ...(limit ? { 'x-delivery-limit': limit } : {}) };
      await channel.assertQueue(queue, { durable: true, arguments: quorum });
    }
    const checks = await checked(rabbit.url, [...Object.keys(limits), 'here', 'gone']);
    const found = checks.filter(({ name }) => name === 'deliveries');
    const { version } = connection.connection.serverProperties;
    expect(found.map(({ status, details }) => `${details['queue'] as string} ${status}`)).toEqual([
      'low problem',
      'usual advice',
      'high ok',
      `endless ${Number.parseInt(version, 10) < 4 ? 'ok' : 'advice'}`,
    ]);
    // Asking must not have made it, even if it is gone between two questions.
    expect(await checkDeliveryLimit(connection, 'gone')).toBeNull();
    expect(await checked(rabbit.url, ['gone'])).toContainEqual(
      expect.objectContaining({ name: 'topology', status: 'advice' }),
    );
  });

  it('reports messages that no worker takes, in queues that only the ledger knows', async () => {
    await declare('forgotten', 2);
    await database.pool.query(
      `insert into outlast_tally (name, queue, figure, at, count) values ('a', 'forgotten', 'done', '-infinity', 1)`,
    );
    const { stdout } = await project.run('doctor');
    expect(stdout).toMatch(/^problem +broker queues: 2 messages lie in forgotten/m);
  });

  it('reports a user without rights', async () => {
    await rabbit.control('add_user', 'weak', 'secret');
    await rabbit.control('set_permissions', 'weak', '^$', '^$', '^$');
    const url = rabbit.url.replace(/\/\/[^@]*@/, '//weak:secret@');
    const checks = await checked(url, ['here']);
    // Every user may ask about a queue.
    expect(states(checks).slice(0, 2)).toEqual(['connection ok', 'permission problem']);
    expect(JSON.stringify(checks)).not.toContain('secret');
  });

  it('reports a memory alarm', async () => {
    await rabbit.control('set_vm_memory_high_watermark', 'absolute', '1');
    await until(async () => states(await checked(rabbit.url, [])).includes('alarms problem'));
    await rabbit.control('set_vm_memory_high_watermark', '0.6');
    await until(async () => states(await checked(rabbit.url, [])).includes('alarms ok'));
  });

  it('never says that all is well while RabbitMQ is down', async () => {
    await rabbit.kill();
    const ended: Ended = await project.run('doctor');
    expect(ended.code).toBe(5);
    expect(ended.stdout).toMatch(/^problem +broker connection: /m);
    expect(ended.stdout).not.toContain('all is well');
  });
});
