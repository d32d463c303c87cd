import { Pool } from 'pg';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { createOutlast as createBuilt, runOnce, task as builtTask } from '../../dist/index.js';
import { createOutlast } from '../../src/app/create-outlast.ts';
import { migrateTarget, openDatabase, uninstallTarget } from '../../src/context/openers.ts';
import { task } from '../../src/task/define-task.ts';
import { CliProject, json, type JsonError } from '../support/cli-project.ts';
import { migratedMariadb, until } from '../support/database.ts';
import { redisUrl, withDatabase, type TestDatabase } from '../support/servers.ts';

const fail = (): never => {
  throw new RangeError('on purpose');
};
const ping = task('uninstall.ping');

let project: CliProject;
const databases: TestDatabase[] = [];

beforeAll(() => {
  project = new CliProject();
});

afterAll(async () => {
  await project.dispose();
  await Promise.all(databases.map(database => database.drop()));
});

interface Installed {
  readonly url: string;
  readonly target: Parameters<typeof uninstallTarget>[0];
  readonly env: Readonly<Record<string, string>>;
  readonly names: () => Promise<readonly string[]>;
  readonly run: (...statements: readonly string[]) => Promise<void>;
}

/** A database with our tables in `outlast`, and something of somebody else that looks like ours in `public`. */
async function installed(): Promise<Installed> {
  const database = await withDatabase('uninstall');
  databases.push(database);
  const { url } = database;
  const target = { kind: 'postgres', url, schema: 'outlast' };
  const run = async (...statements: readonly string[]): Promise<void> => {
    const pool = new Pool({ connectionString: url, max: 1 });
    for (const statement of statements) await pool.query(statement);
    await pool.end();
  };
  await run('create table outlast_orders (id text)');
  await migrateTarget(target);
  const names = async (): Promise<readonly string[]> => {
    const pool = new Pool({ connectionString: url, max: 1 });
    const { rows } = await pool.query<{ name: string }>(
      `select 'table ' || c.relname as name from pg_class c where c.relname like 'outlast%' and c.relkind = 'r'
       union select 'function ' || proname from pg_proc where proname like 'outlast%'
       union select 'schema ' || nspname from pg_namespace where nspname like 'outlast%' order by 1`,
    );
    await pool.end();
    return rows.map(({ name }) => name);
  };
  const env = { OUTLAST_DATABASE_URL: url, OUTLAST_SCHEMA: 'outlast' };
  return { url, target, env, names, run };
}

describe('outlast uninstall', () => {
  it('drops all that migrate made, and nothing else', async () => {
    const { env, names } = await installed();
    expect((await names()).length).toBeGreaterThan(20);
    const { code, stdout } = await project.runWith(env, 'uninstall');
    expect({ code, stdout }).toMatchObject({
      code: 0,
      stdout: expect.stringMatching(/^dropped \d+ tables\n$/) as unknown,
    });
    expect(await names()).toEqual(['table outlast_orders']);
    const again = await project.runWith(env, 'uninstall', '--json');
    expect(json(again.stdout)).toEqual({ dropped: [] });
  });

  it('leaves a schema in which there is something else', async () => {
    const { target, names, run } = await installed();
    await run('create table outlast.notes (id text)');
    await uninstallTarget(target);
    expect(await names()).toEqual(['schema outlast', 'table outlast_orders']);
  });

  it('refuses while a task waits, and drops nothing', async () => {
    const { url, env, names } = await installed();
    const before = await names();
    await using outlast = createOutlast({ database: url, schema: 'outlast' });
    await outlast.transaction(tx => outlast.send(tx, ping));
    const { code, stdout, stderr } = await project.runWith(env, 'uninstall', '--json');
    const { error } = json<JsonError>(stdout === '' ? stderr : stdout);
    expect({ code, error }).toMatchObject({
      code: 4,
      error: {
        code: 'ERR_TASKS_LEFT',
        message: expect.stringContaining('1 tasks that wait') as unknown,
      },
    });
    expect(await names()).toEqual(before);
  });

  it('waits for a sender that has not committed yet, and counts its task', async () => {
    const { url, target } = await installed();
    await using outlast = createOutlast({ database: url, schema: 'outlast' });
    const pool = new Pool({ connectionString: url, max: 1 });
    let refused: Promise<unknown> | undefined;
    await outlast.transaction(async tx => {
      await outlast.send(tx, ping);
      refused = uninstallTarget(target).catch((error: unknown) => error);
      const waiting = `select 1 from pg_locks where not granted and relation = 'outlast.outlast_task'::regclass`;
      await until(async () => (await pool.query(waiting)).rowCount);
    });
    await pool.end();
    expect(await refused).toMatchObject({ code: 'ERR_TASKS_LEFT', left: { tasks: 1 } });
  });

  const LEFT: readonly (readonly [string, string, object])[] = [
    [
      'a task runs',
      `insert into outlast.outlast_task (id, name, queue, priority, payload_version, body, options, state) values ('1', 'n', 'q', 0, 1, '', '', 'running')`,
      { tasks: 1 },
    ],
    [
      'there is a dead letter',
      `insert into outlast.outlast_task (id, name, queue, priority, payload_version, body, options, state) values ('1', 'n', 'q', 0, 1, '', '', 'dead')`,
      { deadLetters: 1 },
    ],
    [
      'a follow-up is to be sent',
      `insert into outlast.outlast_after (key, entry) values ('k', '')`,
      { followUps: 1 },
    ],
    [
      'a program has put a schedule',
      `insert into outlast.outlast_schedule (name, version, origin, definition, digest, next_slot_ms) values ('s', 'v', 'api', '{}', '', 1)`,
      { schedules: 1 },
    ],
    [
      'a worker lives',
      `insert into outlast.outlast_worker (id, process, host, pid, lease_ms, deadline) values ('w', 'p', 'h', 1, 5000, clock_timestamp() + interval '1 day')`,
      { workers: 1 },
    ],
    [
      'a relay lives',
      `insert into outlast.outlast_relay (id, lease_until) values ('r', clock_timestamp() + interval '1 day')`,
      { relays: 1 },
    ],
  ];

  it.each(LEFT)(
    'refuses while %s, and so does the SQL that it prints',
    async (_, statement, left) => {
      const { target, env, run, names } = await installed();
      await run(statement);
      const before = await names();
      await expect(uninstallTarget(target)).rejects.toMatchObject({ code: 'ERR_TASKS_LEFT', left });
      const { stdout } = await project.runWith(env, 'uninstall', '--print');
      await expect(run(stdout)).rejects.toThrow('something is left');
      expect(await names()).toEqual(before);
    },
  );

  it('refuses while a ledger in Redis has a dead letter', async () => {
    const { url, env, names } = await installed();
    const charge = builtTask('uninstall.charge');
    const redis = new URL(redisUrl());
    redis.pathname = '/11';
    const brokered = { ...env, OUTLAST_BROKER_URL: redis.href };
    await using outlast = createBuilt({ database: url, schema: 'outlast', broker: redis.href });
    const handler = outlast.handler(charge, { retry: { maxAttempts: 1 }, run: () => fail() });
    const { id } = await outlast.transaction(tx => outlast.send(tx, charge));
    await runOnce(outlast, { tasks: [handler] });
    await expect(outlast.find(charge, id).result()).rejects.toMatchObject({
      code: 'ERR_TASK_FAILED',
    });
    const before = await names();
    const { code, stderr } = await project.runWith(brokered, 'uninstall');
    expect({ code, stderr }).toMatchObject({
      code: 4,
      stderr: expect.stringContaining('dead letters') as unknown,
    });
    expect(await names()).toEqual(before);
  });

  it('drops the tables of an outbox in MariaDB, unless there are rows or schedules', async () => {
    const database = await migratedMariadb('uninstall');
    try {
      const target = { kind: 'mysql', url: database.url };
      await database.pool.query(
        `insert into outlast_relay values ('r', utc_timestamp() + interval 1 day)`,
      );
      await expect(uninstallTarget(target)).rejects.toMatchObject({ left: { relays: 1 } });
      await database.pool.query('delete from outlast_relay');
      await database.pool.query(
        `insert into outlast_schedule (name, version, origin, definition, digest, next_slot_ms) values ('s', 'v', 'api', '{}', '', 1)`,
      );
      await expect(uninstallTarget(target)).rejects.toMatchObject({ left: { schedules: 1 } });
      await database.pool.query('delete from outlast_schedule');
      const { dropped } = await uninstallTarget(target);
      expect(dropped).toContain('outlast_outbox');
      const [rows] = await database.pool.query('show tables');
      expect(rows).toEqual([]);
      const opened = await openDatabase(target, { embedded: 'existing' });
      await expect(opened.checkSchema()).rejects.toMatchObject({ code: 'ERR_SCHEMA_MISSING' });
      await opened.close();
    } finally {
      await database.dispose();
    }
  });
});
