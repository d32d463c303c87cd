import { spawn, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from 'vitest';
import type { PoolClient } from 'pg';
import {
  createOutlast,
  startResurrector,
  task,
  unchecked,
  type Outlast,
} from '../../dist/index.js';
import { createAdmin } from '../../dist/admin/index.js';
import { fromPg } from '../../dist/adapters/transactions/pg.js';
import { until } from '../support/database.ts';
import { startRedis, type OwnRedis } from '../support/redis-server.ts';
import { ChaosKit } from './chaos-kit.ts';

const PROJECT = fileURLToPath(new URL('project/', import.meta.url));

let kit: ChaosKit;
let redis: OwnRedis;

beforeAll(async () => {
  kit = await ChaosKit.create('admission');
  redis = await startRedis(['--appendonly', 'yes']);
});

afterAll(async () => {
  await kit.dispose();
  await redis.dispose();
});

/** The stores of limits, and the variables that name them to other processes. */
const STORES: Readonly<Record<string, () => Readonly<Record<string, string>>>> = {
  PostgreSQL: () => ({}),
  Redis: () => ({ OUTLAST_BROKER_URL: redis.url }),
};

function connect(env: Readonly<Record<string, string>>): Outlast<PoolClient> {
  const outlast = createOutlast({
    database: kit.database.url,
    adapter: fromPg(kit.database.pool),
    worker: { lease: '2s', beat: '300ms' },
    ...('OUTLAST_BROKER_URL' in env ? { broker: redis.url } : {}),
  });
  onTestFinished(() => outlast.close());
  return outlast;
}

/** One admitted push: the store decided at some moment between the two, by the clock of this machine. */
interface LetIn {
  readonly from: number;
  readonly to: number;
}

interface Clients {
  readonly child: ChildProcess;
  readonly ready: Promise<unknown>;
  readonly letIn: LetIn[];
  refusals: number;
}

function startClients(more: Readonly<Record<string, string>>): Clients {
  const child = spawn(process.execPath, ['clients.mjs'], {
    cwd: PROJECT,
    env: { ...process.env, OUTLAST_DATABASE_URL: kit.database.url, ...more },
    stdio: ['pipe', 'pipe', 'inherit'],
  });
  const clients: Clients = {
    child,
    ready: once(child.stdout, 'data'),
    letIn: [],
    refusals: 0,
  };
  createInterface({ input: child.stdout }).on('line', line => {
    const report = JSON.parse(line) as LetIn | string;
    if (report === 'refused') clients.refusals += 1;
    if (typeof report === 'object') clients.letIn.push(report);
  });
  return clients;
}

describe.each(Object.entries(STORES))(
  '64 clients of %s, two of four processes killed',
  (_, envOf) => {
    it('never exceed the rate in any window, and no share of it stays taken', async () => {
      const outlast = connect(envOf());
      const all = Array.from({ length: 4 }, () => startClients(envOf()));
      await Promise.all(all.map(({ ready }) => ready));
      const exits = all.map(({ child }) => once(child, 'exit'));
      for (const { child } of all) child.stdin?.write('go\n');
      // After their first admission: a killed client keeps what it took without reporting it.
      for (const { child, letIn } of all.slice(0, 2)) {
        await until(async () => letIn.length > 0);
        child.kill('SIGKILL');
      }
      await Promise.all(exits);
      const letIn = all.flatMap(clients => clients.letIn).toSorted((a, b) => a.from - b.from);
      const most = Math.max(
        ...letIn.map(
          ({ from }) => letIn.filter(one => one.from >= from && one.to < from + 1_000).length,
        ),
      );
      expect(most).toBeLessThanOrEqual(40);
      expect(letIn.length).toBeGreaterThan(20);
      expect(all.reduce((sum, { refusals }) => sum + refusals, 0)).toBeGreaterThan(0);
      // Everything is available again after some time, whichever process died: a whole burst.
      await until(async () => {
        const figures = await createAdmin(outlast).admission();
        return figures.find(({ key }) => key === 'task:chaos.limited')?.available === 10;
      });
    });
  },
);

describe.each(Object.entries(STORES))('two fleets of workers on %s, some killed', (_, envOf) => {
  const crowd = task('chaos.crowd', {
    input: unchecked<number>(),
    queue: 'chaos',
    admission: { concurrency: 3 },
  });

  it('never exceed the concurrency limit of a task, and leave no reservation behind', async () => {
    const outlast = connect(envOf());
    const env = { ...envOf(), OUTLAST_WORKER_PROCESSES: '2' };
    const fleets = [kit.start('worker', env), kit.start('worker', env)];
    const recovery = await startResurrector(outlast, { interval: '100ms' });
    const { pool } = kit.database;
    const killed = new Map<number, number>();
    const ids: string[] = [];
    for (let n = 0; n < 36; n++) ids.push((await outlast.push(crowd, n)).id);
    for (let kills = 0; kills < 3; kills++) {
      const pid = await until(async () => {
        const text = `select pid from run where task_id = any($1) and pid <> all($2) and not exists
          (select from effect where effect.task_id = run.task_id and effect.epoch = run.epoch)`;
        return (await pool.query<{ pid: number }>(text, [ids, [...killed.keys()]])).rows[0]?.pid;
      });
      const { rows } = await pool.query<{ at: Date }>('select clock_timestamp() as at');
      process.kill(pid, 'SIGKILL');
      killed.set(pid, rows[0]?.at.getTime() ?? 0);
    }
    await until(async () => {
      const states = await Promise.all(ids.map(id => outlast.find(crowd, id).state()));
      return states.every(state => state === 'done');
    });
    const { rows: spans } = await pool.query<{ pid: number; from: Date; to: Date | null }>(
      `select r.pid, r.at as from, e.at as to from run r
       left join effect e on e.task_id = r.task_id and e.epoch = r.epoch where r.task_id = any($1)`,
      [ids],
    );
    const runs = spans.map(({ pid, from, to }) => ({
      from: from.getTime(),
      // A killed process ran until then at the latest.
      to: to?.getTime() ?? killed.get(pid) ?? Infinity,
    }));
    const together = runs.map(
      ({ from }) => runs.filter(run => run.from <= from && from < run.to).length,
    );
    expect(Math.max(...together)).toBeLessThanOrEqual(3);
    expect(Math.max(...together)).toBeGreaterThan(1);
    await until(async () => {
      const figures = await createAdmin(outlast).admission();
      return figures.find(({ key }) => key === 'task:chaos.crowd')?.held === 0;
    });
    await recovery.stop();
    for (const fleet of fleets) expect(await kit.stop(fleet)).toBe('code 0');
  });
});
