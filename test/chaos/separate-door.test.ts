import { existsSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { createOutlast, task, unchecked, type Outlast, type TaskHandle } from '../../dist/index.js';
import { createAdmin } from '../../dist/admin/index.js';
import type { FaultPointName } from '../../src/runtime/runtime.ts';
import { unique } from '../conformance/envelopes.ts';
import { CliProject, type CliProcess } from '../support/cli-project.ts';
import { migratedDatabase, migratedMariadb, until } from '../support/database.ts';
import { startRedis, type OwnRedis } from '../support/redis-server.ts';
import { isLong } from '../support/selection.ts';
import { faultEnv } from '../support/fault-env.ts';

interface Database {
  readonly url: string;
  ask(sql: string): Promise<readonly Readonly<Record<string, unknown>>[]>;
  dispose(): Promise<void>;
}

const DATABASES: Readonly<Record<string, () => Promise<Database>>> = {
  PostgreSQL: async () => {
    const database = await migratedDatabase('separate');
    return { ...database, ask: async sql => (await database.pool.query(sql)).rows as [] };
  },
  MariaDB: async () => {
    const database = await migratedMariadb('separate');
    return { ...database, ask: async sql => (await database.pool.query(sql))[0] as [] };
  },
};

const COLUMNS = '(task_id varchar(160) not null, epoch bigint not null, pid int not null)';

const filesOf = (queue: string): Readonly<Record<string, string>> => ({
  'outlast.config.mjs': `
    import { defineConfig } from 'outlast';
    export default defineConfig({
      tasks: ['./handlers.mjs'],
      worker: { queues: ['${queue}'], concurrency: 1, processes: 1, lease: '2s', beat: '300ms', shutdownTimeout: '1s' },
    });`,
  'handlers.mjs': `
    import { existsSync } from 'node:fs';
    import { setTimeout as sleep } from 'node:timers/promises';
    import pg from 'pg';
    import mysql from 'mysql2/promise';
    import { createOutlast, task, unchecked } from 'outlast';
    import { fromPg } from 'outlast/pg';
    import { fromMysql2 } from 'outlast/mysql2';
    import config from './outlast.config.mjs';
    const url = process.env.OUTLAST_DATABASE_URL;
    const isMysql = url.startsWith('mysql');
    const pool = isMysql ? mysql.createPool(url) : new pg.Pool({ connectionString: url });
    pool.on('error', () => undefined);
    const outlast = createOutlast({ ...config, adapter: isMysql ? fromMysql2(pool) : fromPg(pool) });
    const note = (on, table, ctx, pid = process.pid) =>
      on.query("insert into " + table + " values ('" + ctx.id + "', " + ctx.epoch + ', ' + pid + ')');
    export const pay = outlast.handler(
      task('separate.pay', { queue: '${queue}', result: unchecked() }),
      async (_, ctx) => {
        await note(pool, 'run', ctx);
        const by = await ctx.transaction(async tx => {
          await note(tx, 'effect', ctx);
          return ctx.epoch;
        });
        return { by, epoch: ctx.epoch };
      },
    );
    export const isolated = outlast.handler(
      task('separate.isolated', { queue: '${queue}', input: unchecked(), result: unchecked() }),
      {
        mode: 'process',
        run: async (file, ctx) => {
          // The worker's.
          await note(pool, 'run', ctx, process.ppid);
          if (ctx.resurrections === 0) {
            while (!existsSync(file)) await sleep(20);
            await note(pool, 'run', ctx, process.ppid);
          }
          await ctx.transaction(async tx => void (await note(tx, 'effect', ctx)));
          return ctx.epoch;
        },
      },
    );
    export const mortal = outlast.handler(
      task('separate.mortal', { queue: '${queue}', result: unchecked(), input: unchecked(), idempotent: true }),
      {
        maxResurrections: 0,
        run: async (_, ctx) =>
          await ctx.transaction(async tx => {
            await note(tx, 'effect', ctx);
            return ctx.id;
          }),
      },
    );
    const keyed = task('separate.keyed', { queue: '${queue}', input: unchecked(), result: unchecked(), idempotent: true });
    export const once = outlast.handler(keyed, {
      maxResurrections: 20,
      run: async (_, ctx) => {
        await note(pool, 'run', ctx);
        const found = await pool.query('select 1 from halt');
        const halts = (found.rows ?? found[0]).length;
        // Its first runs stop before, inside and after the effect, and say so.
        const haltAt = async stage => {
          if (halts !== stage) return;
          await note(pool, 'halt', ctx);
          await new Promise(() => undefined);
        };
        await haltAt(0);
        await ctx.transaction(async tx => {
          await note(tx, 'effect', ctx);
          await haltAt(1);
        });
        await haltAt(2);
        return { id: ctx.id, epoch: ctx.epoch };
      },
    });
    const raised = mode =>
      outlast.handler(task('separate.raised-' + mode, { queue: '${queue}', result: unchecked() }), {
        mode,
        fence: 'start',
        checkpoint: unchecked(),
        run: async (_, ctx) => {
          const atStart = ctx.fence;
          await ctx.checkpoint(1);
          await ctx.transaction(async tx => void (await note(tx, 'effect', ctx)));
          return [atStart, ctx.epoch];
        },
      });
    export const inline = raised('inline');
    export const thread = raised('thread');`,
});

/** The ledger is in Redis, the effects are in a database: real processes die and sleep inside the door. */
describe.each(Object.entries(DATABASES))('a door to %s', (database, open) => {
  /** Another database makes no difference here. */
  const isSame = database !== 'PostgreSQL' && !isLong;
  const queue = unique('queue');
  const pay = task('separate.pay', { queue, result: unchecked<{ by: number; epoch: number }>() });
  let redis: OwnRedis;
  let target: Database;
  let project: CliProject;
  let outlast: Outlast;
  let faults = 0;

  beforeAll(async () => {
    [redis, target] = await Promise.all([
      startRedis(['--appendonly', 'yes', '--appendfsync', 'always']),
      open(),
    ]);
    for (const table of ['run', 'effect', 'halt'])
      await target.ask(`create table ${table} ${COLUMNS}`);
    const env = { OUTLAST_DATABASE_URL: target.url, OUTLAST_BROKER_URL: redis.url };
    project = new CliProject(filesOf(queue), env);
    outlast = createOutlast({ database: target.url, broker: redis.url });
  });

  afterAll(async () => {
    await outlast.close();
    await project.dispose();
    await target.dispose();
    await redis.dispose();
  });

  /** A worker that reaches the point with a task, and what happens to it there. */
  const reach = async (
    point: FaultPointName,
    action: 'kill' | 'stop',
  ): Promise<{ worker: CliProcess; sent: TaskHandle<{ by: number; epoch: number }> }> => {
    const file = join(project.folder, `hit-${++faults}`);
    const worker = project.start(['worker'], {
      ...faultEnv(`${point}:${action}:1:${file}`),
    });
    const sent = await outlast.push(pay);
    await until(async () => existsSync(file));
    return { worker, sent };
  };
  const allOf = async (table: 'run' | 'effect' | 'halt') =>
    (await target.ask(`select task_id, epoch, pid from ${table} order by epoch`)).map(row => ({
      id: String(row['task_id']),
      epoch: Number(row['epoch']),
      pid: Number(row['pid']),
    }));
  const rowsOf = async (table: 'run' | 'effect', id: string) =>
    (await allOf(table)).filter(row => row.id === id);
  const epochsOf = async (table: 'run' | 'effect', id: string): Promise<number[]> =>
    (await rowsOf(table, id)).map(({ epoch }) => epoch).toSorted((a, b) => a - b);
  const fenceOf = async (id: string): Promise<unknown> =>
    Number(
      (await target.ask(`select epoch from outlast_fence where task_id = '${id}'`))[0]?.['epoch'],
    );

  it('whose process dies after COMMIT returns the value of its step to the next run', async () => {
    const { worker, sent } = await reach('door.committed-not-reported', 'kill');
    expect(await sent.result({ timeout: '60s' })).toEqual({ by: 1, epoch: 2 });
    expect(await epochsOf('effect', sent.id)).toEqual([1]);
    expect((await worker.stop()).code).toBe(0);
  });

  it('whose task dies with its process after COMMIT returns the value to the next task of its key', async () => {
    const shape = { queue, input: unchecked<string>(), result: unchecked<string>() };
    const mortal = task('separate.mortal', { ...shape, idempotent: true });
    const file = join(project.folder, `hit-${++faults}`);
    const worker = project.start(['worker'], {
      ...faultEnv(`door.committed-not-reported:kill:1:${file}`),
    });
    const first = await outlast.push(mortal, '17');
    await expect(first.result({ timeout: '60s' })).rejects.toMatchObject({
      code: 'ERR_TASK_FAILED',
    });
    const second = await outlast.push(mortal, '17');
    expect(await second.result({ timeout: '60s' })).toBe(first.id);
    expect(existsSync(file)).toBe(true);
    expect(await epochsOf('effect', first.id)).toEqual([1]);
    expect(await epochsOf('effect', second.id)).toEqual([]);
    await worker.stop();
  });

  it('refuses a process that slept past its lease at the fence', async () => {
    const { worker: sleepy, sent } = await reach('door.fenced', 'stop');
    const [sleeper] = await rowsOf('run', sent.id);
    const fresh = project.start(['worker']);
    await until(async () => (await rowsOf('run', sent.id)).length === 2);
    process.kill(sleeper?.pid ?? 0, 'SIGCONT');
    const { by } = await sent.result({ timeout: '60s' });
    expect(await epochsOf('effect', sent.id)).toEqual([by]);
    expect(by).toBeGreaterThanOrEqual(2);
    expect(await fenceOf(sent.id)).toBe(by);
    await Promise.all([sleepy.stop(), fresh.stop()]);
  });

  it('is freed by the server when its process sleeps inside, and refuses that process when it wakes', async () => {
    const { worker: sleepy, sent } = await reach('door.effect-not-committed', 'stop');
    const [sleeper] = await rowsOf('run', sent.id);
    const fresh = project.start(['worker']);
    const { by, epoch } = await sent.result({ timeout: '60s' });
    expect([by, await epochsOf('effect', sent.id)]).toEqual([epoch, [epoch]]);
    expect(epoch).toBeGreaterThanOrEqual(2);
    await fresh.stop();
    process.kill(sleeper?.pid ?? 0, 'SIGCONT');
    // It knows that it is closed when it runs the next task under a new incarnation.
    const next = await outlast.push(pay);
    await next.result({ timeout: '60s' });
    expect(await epochsOf('effect', sent.id)).toEqual([epoch]);
    expect(await fenceOf(sent.id)).toBe(epoch);
    await sleepy.stop();
  });

  it('whose process sleeps past its lease after COMMIT returns the value of its step to the next run, and drops the stale one', async () => {
    const { worker: sleepy, sent } = await reach('door.committed-not-reported', 'stop');
    const [sleeper] = await rowsOf('run', sent.id);
    const fresh = project.start(['worker']);
    const { by, epoch } = await sent.result({ timeout: '60s' });
    expect(by).toBe(sleeper?.epoch);
    expect(epoch).toBeGreaterThan(by);
    await fresh.stop();
    process.kill(sleeper?.pid ?? 0, 'SIGCONT');
    const next = await outlast.push(pay);
    await next.result({ timeout: '60s' });
    const found = await createAdmin(outlast).tasks.inspect(sent.id);
    const done = found?.history.filter(({ step }) => step === 'done').map(line => line.epoch);
    expect([done, await epochsOf('effect', sent.id)]).toEqual([[epoch], [by]]);
    await sleepy.stop();
  });

  it('refuses a handler in its own process that continues while its worker sleeps past the lease', async ({
    skip,
  }) => {
    skip(isSame);
    const shape = { queue, input: unchecked<string>(), result: unchecked<number>() };
    const file = join(project.folder, 'goes-on');
    const sleepy = project.start(['worker']);
    const sent = await outlast.push(task('separate.isolated', shape), file);
    const runs = async (count: number) =>
      await until(async () => {
        const all = await rowsOf('run', sent.id);
        return all.length === count && all;
      });
    const [sleeper] = await runs(1);
    process.kill(sleeper?.pid ?? 0, 'SIGSTOP');
    const fresh = project.start(['worker']);
    const epoch = await sent.result({ timeout: '60s' });
    expect(epoch).toBeGreaterThan(sleeper?.epoch ?? 0);
    await fresh.stop();
    writeFileSync(file, '');
    await runs(3);
    process.kill(sleeper?.pid ?? 0, 'SIGCONT');
    // It runs one task at a time, so the late run has ended by then.
    await (await outlast.push(pay)).result({ timeout: '60s' });
    expect(await epochsOf('effect', sent.id)).toEqual([epoch]);
    expect(await fenceOf(sent.id)).toBe(epoch);
    await sleepy.stop();
  });

  it('is passed once by 50 duplicates whose processes are killed before, inside and after it', async ({
    skip,
  }) => {
    skip(isSame);
    const keyed = task('separate.keyed', {
      queue,
      input: unchecked<{ readonly order: string }>(),
      result: unchecked<{ readonly id: string; readonly epoch: number }>(),
      idempotent: true,
    });
    const { tasks: before } = await createAdmin(outlast).stats();
    const fleets = Array.from({ length: 2 }, () => project.start(['worker', '--concurrency', '4']));
    const handles = await Promise.all(
      Array.from({ length: 50 }, () => outlast.push(keyed, { order: '17' })),
    );
    for (let stage = 1; stage <= 3; stage++) {
      const halts = await until(async () => {
        const all = await allOf('halt');
        return all.length === stage && all;
      });
      process.kill(halts.at(-1)?.pid ?? 0, 'SIGKILL');
    }
    const results = await Promise.all(handles.map(handle => handle.result({ timeout: '60s' })));
    const [first = { id: '', epoch: 0 }] = results;
    for (const result of results) expect(result).toEqual(first);
    const ids = new Set(handles.map(({ id }) => id));
    const ofAny = (rows: readonly { readonly id: string; readonly epoch: number }[]) =>
      rows.flatMap(({ id, epoch }) => (ids.has(id) ? [{ id, epoch }] : []));
    // The effect of the third run, whose value the fourth got; and no duplicate ran beside them.
    expect(ofAny(await allOf('effect'))).toEqual([{ id: first.id, epoch: first.epoch - 1 }]);
    expect(ofAny(await allOf('run'))).toEqual(
      [3, 2, 1, 0].map(earlier => ({ id: first.id, epoch: first.epoch - earlier })),
    );
    const { tasks } = await createAdmin(outlast).stats();
    expect(tasks).toMatchObject({ waiting: 0, running: 0, dead: before.dead });
    for (const fleet of fleets) expect((await fleet.stop()).code).toBe(0);
  });

  it('raises the epoch of a run whose ledger has lost its data, wherever its handler runs', async ({
    skip,
  }) => {
    skip(isSame);
    const worker = project.start(['worker']);
    for (const where of ['inline', 'thread']) {
      const id = unique('raised');
      const lost = `('${id}', 900000000, 'lost', '2100-01-01 00:00:00', '2026-01-01 00:00:00')`;
      await target.ask(
        `insert into outlast_fence (task_id, epoch, run, look_at, updated_at) values ${lost}`,
      );
      const raised = task(`separate.raised-${where}`, { queue, result: unchecked<number[]>() });
      const sent = await outlast.push(raised, undefined, { id });
      const epoch = 900_000_001;
      expect(await sent.result({ timeout: '60s' })).toEqual([epoch, epoch]);
      expect(await epochsOf('effect', id)).toEqual([epoch]);
      expect(await fenceOf(id)).toBe(epoch);
    }
    await worker.stop();
  });
});
