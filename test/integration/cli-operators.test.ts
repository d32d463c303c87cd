import { afterAll, beforeAll, describe, expect, it, onTestFinished } from 'vitest';
import { CliProject, json, type JsonError } from '../support/cli-project.ts';
import { sendRows } from '../support/outbox-rows.ts';
import { migratedDatabase, type MigratedDatabase } from '../support/database.ts';
import { withRedis } from '../support/redis-broker.ts';
import { startRedis } from '../support/redis-server.ts';

let database: MigratedDatabase;
let project: CliProject;

beforeAll(async () => {
  database = await migratedDatabase('operators');
  project = new CliProject({}, { OUTLAST_DATABASE_URL: database.url });
});

afterAll(async () => {
  await project.dispose();
  await database.dispose();
});

describe('outbox list', () => {
  interface Page {
    readonly items: readonly { readonly id: string }[];
    readonly next: string | null;
  }

  it('shows pending rows, oldest first, page by page', async () => {
    await sendRows(database.url, ['o1', 'o2', 'o3'], { headers: { hidden: 'secret' } });
    const first = json<Page>(
      (await project.run('outbox', 'list', '--limit', '2', '--json')).stdout,
    );
    expect(first.items.map(({ id }) => id)).toEqual(['o1', 'o2']);
    expect(first.items[0]).toMatchObject({
      name: 'py.any',
      queue: 'default',
      state: 'pending',
      is_supported: true,
      retries: 0,
      last_error: null,
      ordering_key: 'o1',
      available_at: expect.stringMatching(/Z$/) as string,
    });
    const cursor = ['--cursor', first.next ?? ''];
    const { stdout } = await project.run('outbox', 'list', ...cursor, '--json');
    expect(json<Page>(stdout)).toMatchObject({ items: [{ id: 'o3' }], next: null });
    const text = await project.run('outbox', 'list', '--limit', '1');
    expect(text.stdout).toMatch(/^ID +NAME +QUEUE +STATE +RETRIES/);
    expect(text.stderr).toContain('more: --cursor ');
    expect(text.stdout).not.toContain('secret');
  });

  it('reports that there are no rows, and refuses a cursor that no page returned', async () => {
    await project.run('relay', '--drain');
    const empty = await project.run('outbox', 'list');
    expect(empty).toMatchObject({ code: 0, stdout: '', stderr: 'the outbox is empty\n' });
    const refused = await project.run('outbox', 'list', '--cursor', '1; drop table', '--json');
    expect(refused).toMatchObject({ code: 2, stdout: '' });
    expect(json<JsonError>(refused.stderr).error.code).toBe('ERR_OPTION_RANGE');
  });
});

describe('admission', () => {
  it('shows every key with its available, held, waiting and rejected counts', async () => {
    expect(await project.run('admission')).toMatchObject({
      code: 0,
      stderr: 'no limit was asked for yet\n',
    });
    await database.pool.query(`
      insert into outlast_admission (key, interval_us, burst, rate_limit, per_ms, concurrency, rejected)
      values ('tenant:a', 1000000, 20, 79, 60000, 3, 7);
      insert into outlast_place (key, task_id, run) values ('tenant:a', 't', 'r')`);
    const { stdout } = await project.run('admission', '--json');
    expect(json(stdout)).toEqual({
      closed: null,
      keys: [
        {
          key: 'tenant:a',
          rate: { limit: 79, per_ms: 60_000, burst: 20 },
          available: 20,
          concurrency: 3,
          held: 1,
          waiting: 0,
          rejected: 7,
        },
      ],
    });
    const text = await project.run('admission');
    expect(text.stdout).toMatch(/^KEY +RATE +AVAILABLE +HELD +WAITING +REJECTED/);
    expect(text.stdout).toMatch(/tenant:a +79 in 60 s, burst 20 +20 +1 of 3 +0 +7/);
  });

  it('reports that nothing is admitted while Redis is nearly full', async () => {
    const server = await startRedis();
    onTestFinished(() => server.dispose());
    const env = { OUTLAST_DATABASE_URL: database.url, OUTLAST_BROKER_URL: server.url };
    const full = new CliProject({}, env);
    onTestFinished(() => full.dispose());
    const open = await full.run('admission', '--json');
    expect(json(open.stdout)).toEqual({ closed: null, keys: [] });
    await withRedis(server.url, async connection => {
      const used = /used_memory:(\d+)/.exec(
        String(await connection.command('info', 'memory')),
      )?.[1];
      await connection.command('config', 'set', 'maxmemory', Math.floor(Number(used) * 1.1));
    });
    const why = expect.stringMatching(/^\d+ % of the maxmemory of Redis are used$/) as string;
    const closed = await full.run('admission', '--json');
    expect(json(closed.stdout)).toEqual({ closed: { why, retry_after_ms: 1_000 }, keys: [] });
    const text = await full.run('admission');
    expect(text).toMatchObject({ code: 0, stderr: 'no limit was asked for yet\n' });
    expect(text.stdout).toMatch(
      /^closed: \d+ % of the maxmemory of Redis are used, so no new task is pushed or published\n$/,
    );
  });
});

describe('slo', () => {
  it('shows burn rates, and its exit code says whether somebody should be woken', async () => {
    const none = await project.run('slo');
    expect(none).toMatchObject({ code: 0, stdout: '' });
    expect(none.stderr).toContain('has an slo');
    await database.pool.query(`
      insert into outlast_objective values ('shop.pay', 0.999, 5000, 0.99), ('shop.idle', 0.9, null, null);
      insert into outlast_tally values ('shop.pay', 'a', 'done', date_bin('1 minute', now(), 'epoch'), 900);
      insert into outlast_tally_sum values
        ('shop.pay', 'a', 'dead', date_bin('1 minute', now(), 'epoch'), 98),
        ('shop.pay', 'b', 'expired', date_bin('1 minute', now(), 'epoch') - interval '2 minutes', 2),
        ('shop.pay', 'b', 'done', '-infinity', 5)`);
    const { code, stdout } = await project.run('slo', '--json');
    expect(code).toBe(6);
    const { objectives } = json<{ readonly objectives: readonly object[] }>(stdout);
    expect(objectives).toMatchObject([
      { task: 'shop.idle', status: 'no-traffic', windows: { '3d': { burn_rate: null } } },
      {
        task: 'shop.pay',
        objective: 'success',
        target: 0.999,
        within_ms: null,
        status: 'page',
        windows: { '1h': { good: 900, bad: 100, burn_rate: expect.closeTo(100, 6) as number } },
      },
      { task: 'shop.pay', objective: 'latency', within_ms: 5_000, status: 'ok' },
    ]);
    const text = await project.run('slo');
    expect(text.stdout).toMatch(/^TASK +OBJECTIVE +TARGET +5M +30M +1H +6H +3D +STATUS/);
    expect(text.stdout).toMatch(/shop\.pay +latency 5 s +0\.99 +0\.00 .* ok\n/);
    const calmer = await project.run('slo', '--target', '0.95');
    expect(calmer).toMatchObject({ code: 0 });
    expect(await project.run('slo', '--target', '0.95', '--strict')).toMatchObject({ code: 6 });
    const refused = await project.run('slo', '--target', '1', '--json');
    expect(refused).toMatchObject({ code: 2, stdout: '' });
    expect(json<JsonError>(refused.stderr).error.code).toBe('ERR_OPTION_RANGE');
    const stats = json<{ readonly totals: readonly object[] }>(
      (await project.run('stats', '--json')).stdout,
    );
    expect(stats.totals).toEqual([
      { name: 'shop.pay', queue: 'a', counts: { done: 900, dead: 98 } },
      { name: 'shop.pay', queue: 'b', counts: { done: 5, expired: 2 } },
    ]);
    expect((await project.run('stats')).stdout).toMatch(/shop\.pay +a +900 +0 +0 +98/);
  });
});

describe('config show', () => {
  it('shows every setting with its source, and no secret', async () => {
    project.write(
      'shown.config.mjs',
      `export default {
        outboxes: { crm: { database: 'postgres://app:hunter2@db/crm' } },
        relay: { batchSize: 7 },
        retention: { deadLetters: { olderThanDead: '30d' } },
      };`,
    );
    const env = {
      OUTLAST_DATABASE_URL: 'postgres://app:hunter3@db/shop',
      OUTLAST_RELAY_IDLE_TIME: '2',
    };
    const args = ['config', 'show', '--config', 'shown.config.mjs'];
    const ended = await project.runWith(env, ...args, '--json');
    expect(ended.code).toBe(0);
    const { file, settings } = json<{
      file: string;
      settings: { key: string; value: unknown; source: string }[];
    }>(ended.stdout);
    expect(file).toContain('shown.config.mjs');
    const of = (key: string) => settings.find(setting => setting.key === key);
    expect(of('database')).toMatchObject({ value: 'postgres://app:***@db/shop', source: 'env' });
    expect(of('outboxes.crm')).toMatchObject({ value: 'postgres://app:***@db/crm' });
    expect(of('relay.batchSize')).toMatchObject({ value: 7, source: 'file' });
    expect(of('relay.idleTime')).toMatchObject({ value: '2s', source: 'env' });
    expect(of('worker.concurrency')).toMatchObject({ value: 50, source: 'default' });
    expect(of('retention')?.value).toEqual({ deadLetters: { olderThanDead: '30d' } });
    const text = await project.runWith(env, ...args);
    expect(text.stdout).toMatch(/^relay\.batchSize +7 +file$/m);
    expect(`${text.stdout}${text.stderr}${ended.stdout}`).not.toMatch(/hunter/);
  });
});
