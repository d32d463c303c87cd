import { afterAll, beforeAll, describe, expect, it, onTestFinished } from 'vitest';
import {
  type Handler,
  type Outlast,
  createOutlast,
  startRelay,
  startResurrector,
  startWorker,
  task,
  unchecked,
} from '../../dist/index.js';
import { createAdmin } from '../../dist/admin/index.js';
import { PgDatabase, statementName } from '../../src/adapters/postgres/pg-database.ts';
import { PostgresLedger } from '../../src/adapters/postgres/postgres-ledger.ts';
import { SQL } from '../../src/adapters/postgres/sql.generated.ts';
import { unique } from '../conformance/envelopes.ts';
import { CliProject } from '../support/cli-project.ts';
import { type MigratedDatabase, migratedDatabase, until } from '../support/database.ts';
import { type OwnRedis, startRedis } from '../support/redis-server.ts';
import { rabbitmqUrl } from '../support/servers.ts';

const FOREIGN = 20_000;

let database: MigratedDatabase;
let redis: OwnRedis;

beforeAll(async () => {
  database = await migratedDatabase('refused');
  redis = await startRedis([]);
});

afterAll(async () => {
  await redis.dispose();
  await database.dispose();
});

function connect(tier: { readonly broker?: string; readonly ledger?: string }): Outlast {
  const outlast = createOutlast({ database: database.url, ...tier });
  onTestFinished(() => outlast.close());
  return outlast;
}

const makeTask = (queue: string) => task(unique('task'), { queue, input: unchecked<number>() });

const TIERS = [
  { tier: 'PostgreSQL', options: () => ({}) },
  { tier: 'Redis', options: () => ({ broker: redis.url }) },
  { tier: 'RabbitMQ, ledger in PostgreSQL', options: () => ({ broker: rabbitmqUrl() }) },
  {
    tier: 'RabbitMQ, ledger in Redis',
    options: () => ({ broker: rabbitmqUrl(), ledger: redis.url }),
  },
] as const;

describe.each(TIERS)('two services on one queue: $tier', ({ options }) => {
  it('run their own tasks, and none of the other’s becomes a dead letter', async () => {
    const outlast = connect(options());
    const queue = unique('queue');
    const [old, added] = [makeTask(queue), makeTask(queue)];
    const ran: string[] = [];
    const handle = (of: typeof old): Handler =>
      outlast.handler(of, input => void ran.push(`${of.name} ${input}`));
    const serve = async (tasks: readonly Handler[]): Promise<void> => {
      const service = await startWorker(outlast, { tasks, queues: [queue] });
      onTestFinished(() => service.stop());
    };
    const relay = await startRelay(outlast);
    onTestFinished(() => relay.stop());
    // A rolling deploy: the old worker meets the new task before any worker has its handler.
    await serve([handle(old)]);
    const calls = Array.from({ length: 20 }, (_, n) => [added, old].map(of => ({ of, n }))).flat();
    for (const { of, n } of calls) await outlast.push(of, n);
    await until(async () => ran.length === 20);
    await serve([handle(added)]);
    await until(async () => ran.length === 40);
    expect(new Set(ran)).toEqual(new Set(calls.map(({ of, n }) => `${of.name} ${n}`)));
    expect((await createAdmin(outlast).stats()).tasks.dead).toBe(0);
  });
});

describe('a task without a handler in any worker', () => {
  it('becomes a dead letter in time, which names the workers that refused it, and runs when it is retried', async () => {
    const outlast = connect({});
    const queue = unique('queue');
    const [known, unknown] = [makeTask(queue), makeTask(queue)];
    const ran: number[] = [];
    const resurrector = await startResurrector(outlast, { unknownTaskTimeout: '1s' });
    onTestFinished(() => resurrector.stop());
    const first = await startWorker(outlast, {
      tasks: [outlast.handler(known, () => undefined)],
      queues: [queue],
    });
    const { id } = await outlast.push(unknown, 7);
    const { deadLetters } = createAdmin(outlast);
    await until(async () => (await deadLetters.show(id)) !== null);
    const letter = await deadLetters.show(id);
    expect(letter).toMatchObject({ reason: 'ERR_TASK_UNKNOWN' });
    expect(letter?.error).toMatch(
      new RegExp(`no worker had a handler for ${unknown.name}.*refused by .*:${process.pid}:`),
    );
    await first.stop();
    const second = await startWorker(outlast, {
      tasks: [outlast.handler(unknown, input => void ran.push(input))],
      queues: [queue],
    });
    onTestFinished(() => second.stop());
    expect(await deadLetters.retry(id)).toBe('ok');
    await until(async () => ran.length > 0);
    expect(ran).toEqual([7]);
  });
});

describe('a backlog of tasks that a worker cannot run', () => {
  it('is scanned once, and costs nothing after that', async () => {
    const db = await PgDatabase.open({ url: database.url, poolSize: 1, queryTimeoutMs: 60_000 });
    onTestFinished(() => db.close());
    const ledger = new PostgresLedger(db);
    const queue = unique('queue');
    await database.pool.query(
      `insert into outlast_task (id, name, queue, priority, payload_version, body, options, digest, state, due)
       select $1 || n, case when n > $2 then 'mine' else 'foreign' end, $1, 0, 1, '[]', '{}', 'd', 'waiting',
         now() - interval '1 hour' + n * interval '1 ms'
       from generate_series(1, $2::int + 1) n`,
      [queue, FOREIGN],
    );
    await database.pool.query('vacuum analyze outlast_task');
    await ledger.open({ worker: queue, process: 'p', host: 'h', pid: 1, leaseMs: 3_600_000 });
    const asked = {
      queues: [queue],
      limit: 10,
      suspects: 1,
      messages: [],
      crashBudgets: { '*': 5 },
    };
    let begins = 0;
    for (let isBegun = false; !isBegun; begins += 1) {
      const run = `${queue}${begins}`;
      const request = { worker: queue, run, ...asked, runnable: { mine: 1 }, isFirst: true };
      const reply = await ledger.begin(request);
      if (reply.status !== 'open') throw new Error('closed');
      isBegun = reply.begun.length > 0;
    }
    // Five thousand at a time.
    expect(begins).toBeLessThanOrEqual(FOREIGN / 5_000 + 2);
    const read = await rowsRead(db, [
      queue,
      'r',
      `{${queue}}`,
      10,
      '{}',
      '{}',
      '{"mine":1}',
      1e6,
      '{}',
      'true',
    ]);
    expect(read).toBeLessThan(100);
  });
});

interface Plan {
  readonly 'Actual Rows': number;
  readonly 'Actual Loops': number;
  readonly 'Rows Removed by Filter'?: number;
  readonly Plans?: readonly Plan[];
}

/** Rows that `begin-due` looks at. */
async function rowsRead(db: PgDatabase, values: readonly (string | number)[]): Promise<number> {
  const given = values.map(value => (typeof value === 'string' ? `'${value}'` : String(value)));
  const [row] = await db.query(
    `/* kept plan */ explain (analyze, format json) execute ${statementName(SQL.beginDue)}(${given.join(', ')})`,
  );
  const [{ Plan: plan }] = JSON.parse(row?.['QUERY PLAN'] as string) as [{ readonly Plan: Plan }];
  const sum = (node: Plan): number => {
    const own = (node['Rows Removed by Filter'] ?? 0) * node['Actual Loops'];
    return (node.Plans ?? []).reduce((total, part) => total + sum(part), own);
  };
  return sum(plan);
}

describe('a worker without handlers', () => {
  it('does not start', async () => {
    const starting = startWorker(connect({}), { tasks: [] });
    await expect(starting).rejects.toMatchObject({ code: 'ERR_NO_HANDLERS', name: 'ConfigError' });
  });

  it('exits with a usage error on the command line, which names the modules without handlers', async () => {
    const project = new CliProject(
      {
        'outlast.config.mjs': `export default { tasks: ['./handlers.mjs'] };`,
        'handlers.mjs': 'export const forgotten = 1;',
      },
      { OUTLAST_DATABASE_URL: database.url },
    );
    onTestFinished(() => project.dispose());
    const { code, stderr } = await project.run('worker');
    expect(code).toBe(2);
    expect(stderr).toContain('this worker has no handler: ./handlers.mjs export none');
  });
});
