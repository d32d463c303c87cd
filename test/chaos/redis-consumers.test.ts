import { spawn, type ChildProcess } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { expect, it, onTestFinished } from 'vitest';
import { openRedisBroker } from '../../src/adapters/redis/redis-broker.ts';
import { queueKeys } from '../../src/adapters/redis/redis-keys.ts';
import type { PublishOutcome } from '../../src/broker/broker.ts';
import type { Envelope } from '../../src/task/envelope.ts';
import { ids, makeEnvelope, unique } from '../conformance/envelopes.ts';
import { until } from '../support/database.ts';
import { withRedis } from '../support/redis-broker.ts';
import { startRedis } from '../support/redis-server.ts';

const CONSUMER = fileURLToPath(new URL('redis-consumer.mjs', import.meta.url));
const CONSUMERS = 3;
const BATCH = 200;
const KILLS = 12;
/** Short, so that a death is noticed within the test; pauses are longer. */
const LEASE_MS = 400;

it('loses no message to consumers that are killed or paused at any moment, or to restarts', async () => {
  const server = await startRedis(['--appendonly', 'yes']);
  onTestFinished(() => server.dispose());
  const folder = mkdtempSync(join(tmpdir(), 'redis-consumers-'));
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
  const queue = unique('queue');
  const children = new Set<ChildProcess>();
  onTestFinished(() => {
    for (const child of children) child.kill('SIGKILL');
  });
  const file = join(folder, 'delivered');
  const start = (): void => {
    const args = [CONSUMER, server.url, queue, String(LEASE_MS), file];
    const child = spawn(process.execPath, args, { stdio: ['ignore', 'ignore', 'inherit'] });
    children.add(child);
    child.once('exit', () => children.delete(child));
  };

  const broker = await openRedisBroker(server.url);
  onTestFinished(() => broker.close());
  const messages: Envelope[] = [];
  const publish = async (): Promise<void> => {
    for (let n = 0; n < BATCH; n++) messages.push(makeEnvelope({ queue, priority: n % 10 }));
    const batch = messages.slice(-BATCH);
    // Messages that the restarting server did not confirm are published again: copies are allowed, gaps are not.
    await until(async () => (await broker.publish(batch)).every(isConfirmed));
  };
  const { lists, heldPrefix } = queueKeys(queue, false);
  const held = (): Promise<number> =>
    withRedis(server.url, async redis => {
      const keys = (await redis.command('keys', `${heldPrefix}*`)) as readonly Buffer[];
      return keys.length;
    }).catch(() => 0);

  for (let n = 0; n < CONSUMERS; n++) start();
  for (let kill = 0; kill < KILLS; kill++) {
    await publish();
    await until(held);
    // Not a wait for an event: the moment is meant to be random.
    await delay(Math.random() * 20);
    const [victim] = [...children];
    if (kill % 4 === 3) {
      victim?.kill('SIGSTOP');
      setTimeout(() => victim?.kill('SIGCONT'), 2 * LEASE_MS);
    } else if (kill % 6 === 4) {
      await server.stop('SIGKILL');
      await server.start();
    } else {
      victim?.kill('SIGKILL');
      start();
    }
  }

  const delivered = (): Set<string> => new Set(readFileSync(file, 'utf8').split('\n'));
  await until(async () => ids(messages).every(id => delivered().has(id)));
  // In the end nothing is left: the messages of dead consumers were put back, delivered and acknowledged.
  const waiting = (): Promise<unknown> =>
    withRedis(server.url, redis => redis.command('exists', ...lists)).catch(() => null);
  await until(async () => (await held()) === 0 && (await waiting()) === 0);
  expect(await held()).toBe(0);
});

const isConfirmed = ({ status }: PublishOutcome): boolean => status === 'confirmed';
