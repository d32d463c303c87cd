import { Redis } from 'ioredis';
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from 'vitest';
import { createOutlast, startRelay, startWorker, task, unchecked } from '../../dist/index.js';
import { createAdmin } from '../../dist/admin/index.js';
import { unique } from '../conformance/envelopes.ts';
import { CliProject, json, type JsonError } from '../support/cli-project.ts';
import { migratedMariadb, until, type MigratedMariadb } from '../support/database.ts';
import { startRedis, type OwnRedis } from '../support/redis-server.ts';

let database: MigratedMariadb;
let old: OwnRedis;
let next: OwnRedis;

beforeAll(async () => {
  [database, old, next] = await Promise.all([migratedMariadb('drain'), startRedis(), startRedis()]);
});
afterAll(async () => {
  await Promise.all([old.dispose(), next.dispose()]);
  await database.dispose();
});

describe('a tier beside MariaDB that is left', () => {
  it('is reported until workers of the old configuration have drained it, as no move can do it, and nothing is lost or run twice', async () => {
    const queue = unique('drain');
    const job = task(unique('drain.job'), { queue, input: unchecked<number>() });
    const project = new CliProject({}, { OUTLAST_DATABASE_URL: database.url });
    onTestFinished(() => project.dispose());
    const ran: number[] = [];
    const isBroken = new Set([2]);
    const on = (redis: OwnRedis) => {
      const outlast = createOutlast({ database: database.url, broker: redis.url });
      onTestFinished(() => outlast.close());
      const retry = { maxAttempts: 1 };
      const handler = outlast.handler(job, {
        retry,
        run: n => {
          if (isBroken.has(n)) throw new Error('not yet');
          ran.push(n);
        },
      });
      const start = () => startWorker(outlast, { tasks: [handler], queues: [queue] });
      return { outlast, admin: createAdmin(outlast), start };
    };
    const [before, after] = [on(old), on(next)];
    // One waits in the old broker, one is to come later, one is a dead letter.
    await before.outlast.push(job, 1);
    const dead = await before.outlast.push(job, 2);
    await before.outlast.push(job, 3, { countdown: '2s' });
    const failing = await before.start();
    await until(() => before.admin.deadLetters.show(dead.id));
    await failing.stop();
    // Senders and relays have the new configuration.
    await after.outlast.transaction(tx => after.outlast.send(tx, job, 4));
    const env = { OUTLAST_BROKER_URL: next.url };
    const left = async () => {
      const stats = await project.runWith(env, 'stats', '--json');
      const doctor = await project.runWith(env, 'doctor', '--json');
      const { checks } = json<{ checks: { name: string; status: string }[] }>(doctor.stdout);
      const { status } = checks.find(({ name }) => name === 'tiers') ?? {};
      return { left: json<{ left_behind: string[] }>(stats.stdout).left_behind, status };
    };
    const told = ['broker', 'ledger'].map(
      role => expect.stringContaining(`${old.url} was the ${role}`) as string,
    );
    expect(await left()).toEqual({ left: told, status: 'problem' });
    const relay = project.start(['relay'], env);
    await relay.says(`left in a store that is not configured: ${old.url} was the broker`);
    expect(await relay.stop()).toMatchObject({ code: 0 });
    const move = () =>
      project.runWith(env, 'move', '--from-broker', old.url, '--queues', queue, '--json');
    const moved = await move();
    expect(moved.code).toBe(2);
    expect(json<JsonError>(moved.stderr).error.code).toBe('ERR_CONFIG_TIER');
    // Workers of the old one end what is left there.
    isBroken.clear();
    await before.admin.deadLetters.retry(dead.id);
    const draining = await before.start();
    const redis = new Redis(old.url);
    onTestFinished(() => redis.disconnect());
    await until(async () => {
      const { waiting, running } = (await before.admin.stats()).tasks;
      return ran.length === 3 && waiting + running + (await redis.llen(queue)) === 0;
    });
    await draining.stop();
    expect(new Set(ran)).toEqual(new Set([1, 2, 3]));
    const services = [await startRelay(after.outlast), await after.start()];
    onTestFinished(async () => void (await Promise.all(services.map(one => one.stop()))));
    await until(async () => ran.length === 4);
    expect(ran.slice(3)).toEqual([4]);
    expect((await before.admin.deadLetters.list()).items).toEqual([]);
    expect((await move()).code).toBe(0);
    expect(await left()).toEqual({ left: [], status: 'ok' });
  });
});
