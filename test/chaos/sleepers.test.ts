import { existsSync, mkdtempSync, rmSync } from 'node:fs';
import { spawn, type ChildProcess } from 'node:child_process';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { describe, expect, it, onTestFinished } from 'vitest';
import { createAdmin } from '../../dist/admin/index.js';
import {
  createOutlast,
  startRelay,
  startResurrector,
  task,
  unchecked,
  type Outlast,
  type SendOptions,
  type TaskHandle,
} from '../../dist/index.js';
import { FAULT_POINTS, type FaultPointName } from '../../src/runtime/fault-point.ts';
import { migratedDatabase, until, type MigratedDatabase } from '../support/database.ts';
import { startRedis } from '../support/redis-server.ts';

const SCRIPT = fileURLToPath(new URL('sleeper.mjs', import.meta.url));
const LEASE_MS = 2_000;
const FOLLOW_QUEUE = 'follow';

interface Input {
  /** Where it sleeps. */
  readonly at?: string;
  readonly fails?: boolean;
  readonly waits?: boolean;
  readonly saves?: boolean;
}

const shape = { input: unchecked<Input>(), result: unchecked<{ pid: number }>() };
const effect = task('sleep.effect', shape);
const keyed = task('sleep.keyed', { ...shape, idempotent: true });
const compute = task('sleep.compute', {
  input: unchecked<{ ms?: number }>(),
  result: unchecked<{ pid: number }>(),
});
const follow = task('sleep.follow', { ...shape, queue: FOLLOW_QUEUE });

interface Scenario {
  readonly input?: Input;
  readonly options?: SendOptions;
  readonly isKeyed?: boolean;
  /** It has told the ledger how the run ended before it sleeps: nobody else gets the task. */
  readonly isOver?: boolean;
}

/** What a process must be asked to do so that it gets to the point. */
const SCENARIOS = {
  'worker.taken-not-begun': {},
  'worker.admitted-not-run': { options: { tenant: 'narrow' } },
  'worker.begun-not-started': {},
  'worker.checkpoint-kept-not-told': { input: { saves: true } },
  'worker.ran-not-committed': {},
  'worker.kept-not-committed': { isKeyed: true },
  'worker.committed-not-acked': { isOver: true },
  'worker.committed-not-followed': { options: { link: follow.with({}) }, isOver: true },
  'worker.failed-not-told': { input: { fails: true } },
  'worker.ended-not-freed': { input: { fails: true }, isKeyed: true, isOver: true },
  'worker.drain-before-release': { input: { waits: true } },
  'door.fenced': {},
  'door.effect-not-committed': {},
  'door.committed-not-told': {},
  'heart.renewed': { input: { waits: true } },
} as const satisfies Partial<Record<FaultPointName, Scenario>>;
type Point = keyof typeof SCENARIOS;

const ALL = Object.keys(SCENARIOS) as Point[];
const APART: readonly Point[] = ['worker.taken-not-begun', 'worker.committed-not-acked'];
const without = (...points: readonly Point[]): readonly Point[] =>
  ALL.filter(point => !points.includes(point));

interface Place {
  readonly broker?: string;
  readonly ledger?: string;
}

async function ownRedis(): Promise<string> {
  const redis = await startRedis(['--appendonly', 'yes']);
  onTestFinished(() => redis.dispose());
  return redis.url;
}

const TIERS: readonly {
  readonly tier: string;
  /** Points that are on the way of a task there. */
  readonly points: readonly Point[];
  open(): Promise<Place>;
}[] = [
  { tier: 'PostgreSQL', points: without(...APART), open: async () => ({}) },
  {
    // The broker's copy is let go at `begin`.
    tier: 'broker and ledger in one Redis',
    points: without('worker.committed-not-acked'),
    open: async () => ({ broker: await ownRedis() }),
  },
  {
    tier: 'broker and ledger in two Redis',
    points: APART,
    open: async () => ({ broker: await ownRedis(), ledger: await ownRedis() }),
  },
];

it('puts workers to sleep at every point that they have', () => {
  const own = FAULT_POINTS.filter(point => /^(worker|door|heart)\./.test(point));
  expect(ALL.toSorted()).toEqual(own.toSorted());
});

/** Real processes that are stopped at a point for more than twice their lease, and then go on. */
class Dormitory {
  readonly outlast: Outlast;
  readonly database: MigratedDatabase;
  readonly #place: Place;
  readonly #folder = mkdtempSync(join(tmpdir(), 'outlast-sleep-'));

  private constructor(database: MigratedDatabase, place: Place) {
    this.database = database;
    this.#place = place;
    this.outlast = createOutlast({
      database: database.url,
      ...place,
      worker: { lease: `${LEASE_MS}ms`, beat: '300ms' },
    });
  }

  static async open(place: Place): Promise<Dormitory> {
    const database = await migratedDatabase('sleepers');
    for (const table of ['run', 'effect']) {
      await database.pool.query(
        `create table ${table} (task_id text not null, name text not null, epoch bigint not null)`,
      );
    }
    const dormitory = new Dormitory(database, place);
    onTestFinished(async () => {
      await dormitory.outlast.close();
      await database.dispose();
      rmSync(dormitory.#folder, { recursive: true, force: true });
    });
    const services = [
      await startRelay(dormitory.outlast),
      await startResurrector(dormitory.outlast, { interval: '100ms', afterDelay: '500ms' }),
    ];
    onTestFinished(async () => void (await Promise.all(services.map(service => service.stop()))));
    return dormitory;
  }

  start(
    queues: readonly string[],
    point?: Point,
    extra: Readonly<Record<string, string>> = {},
  ): ChildProcess {
    const { broker, ledger } = this.#place;
    const child = spawn(process.execPath, [SCRIPT], {
      env: {
        ...process.env,
        SLEEPER_QUEUES: queues.join(','),
        OUTLAST_DATABASE_URL: this.database.url,
        ...(broker === undefined ? {} : { OUTLAST_BROKER_URL: broker }),
        ...(ledger === undefined ? {} : { OUTLAST_LEDGER_URL: ledger }),
        ...(point === undefined
          ? {}
          : { OUTLAST_FAULT_POINT: `${point}:stop:1:${this.#fileOf(point)}` }),
        ...extra,
      },
      stdio: ['ignore', 'ignore', process.env['CHAOS_LOG'] === undefined ? 'ignore' : 'inherit'],
    });
    onTestFinished(() => void child.kill('SIGKILL'));
    return child;
  }

  isAsleep(point: Point): boolean {
    return existsSync(this.#fileOf(point));
  }

  #fileOf(point: Point): string {
    return join(this.#folder, point);
  }

  async end(child: ChildProcess): Promise<number | string> {
    child.kill('SIGTERM');
    return await this.ended(child);
  }

  async ended(child: ChildProcess): Promise<number | string> {
    if (child.exitCode === null && child.signalCode === null)
      await new Promise<void>(resolve => void child.once('exit', () => resolve()));
    return child.signalCode ?? child.exitCode ?? '';
  }

  async epochsOf(table: 'run' | 'effect', id: string): Promise<number[]> {
    const { rows } = await this.database.pool.query<{ epoch: string }>(
      `select epoch from ${table} where task_id = $1 order by ctid`,
      [id],
    );
    return rows.map(({ epoch }) => Number(epoch));
  }

  async nowMs(): Promise<number> {
    const text = 'select extract(epoch from clock_timestamp()) * 1000 as ms';
    return Number((await this.database.pool.query<{ ms: string }>(text)).rows[0]?.ms);
  }

  async push(point: Point, next?: Input): Promise<TaskHandle<{ pid: number }>> {
    const { input, options, isKeyed }: Scenario = SCENARIOS[point];
    const where = { queue: queueOf(point) };
    if (next !== undefined) return await this.outlast.push(effect, next, where);
    return await this.outlast.push(
      isKeyed === true ? keyed : effect,
      { at: point, ...input },
      { ...options, ...where },
    );
  }
}

const queueOf = (point: Point): string => point.replaceAll('.', '-');

/** A minute is too long for every run of the tests. */
const COMPUTING_S = process.env['OUTLAST_TEST_LONG'] === undefined ? [3] : [3, 60];

interface Sleeper {
  readonly point: Point;
  readonly child: ChildProcess;
  readonly sent: TaskHandle<{ pid: number }>;
}

async function fallAsleep(dormitory: Dormitory, point: Point): Promise<Sleeper> {
  // The one that owes a follow-up could also run it, were it published a second time.
  const owes = point === 'worker.committed-not-followed' ? [FOLLOW_QUEUE] : [];
  const child = dormitory.start([queueOf(point), ...owes], point);
  const sent = await dormitory.push(point);
  if (point === 'worker.drain-before-release') {
    await until(async () => (await dormitory.epochsOf('run', sent.id)).length);
    child.kill('SIGTERM');
  }
  await until(async () => dormitory.isAsleep(point));
  return { point, child, sent };
}

/** It is awake when it has run another task; a process that drained has nothing more to do than end. */
async function wake(dormitory: Dormitory, { point, child }: Sleeper): Promise<void> {
  child.kill('SIGCONT');
  if (point !== 'worker.drain-before-release') {
    const next = await dormitory.push(point, {});
    expect([point, await next.result({ timeout: '60s' })]).toEqual([point, { pid: child.pid }]);
  }
  expect([point, await dormitory.end(child)]).toEqual([point, 0]);
}

async function audit(dormitory: Dormitory, { point, sent }: Sleeper): Promise<void> {
  const { isOver = false }: Scenario = SCENARIOS[point];
  const found = await createAdmin(dormitory.outlast).tasks.inspect(sent.id);
  const done = found?.history.filter(({ step }) => step === 'done') ?? [];
  expect([point, found?.state, done.length]).toEqual([point, 'done', 1]);
  const [runs, effects] = [
    await dormitory.epochsOf('run', sent.id),
    await dormitory.epochsOf('effect', sent.id),
  ];
  expect([point, effects.length]).toEqual([point, 1]);
  // A handler may be entered late, by one that was stopped right before it; no run is had twice.
  expect([point, new Set(runs).size]).toEqual([point, runs.length]);
  // Nobody commits for a run that was taken away: the run that ended it is the last that was given out.
  expect([point, done[0]?.epoch]).toEqual([point, found?.epoch]);
  expect([point, found?.epoch]).toEqual([point, Math.max(found?.epoch ?? 0, ...runs, ...effects)]);
  if (isOver) expect([point, runs.length]).toEqual([point, 1]);
}

describe.each(TIERS)('on $tier', { timeout: 150_000 }, ({ points, open }) => {
  it('a worker that sleeps at any point for twice its lease commits nothing late and has no effect twice', async () => {
    const dormitory = await Dormitory.open(await open());
    const sleepers = await Promise.all(points.map(point => fallAsleep(dormitory, point)));
    const asleepAt = await dormitory.nowMs();
    const others = dormitory.start([...points.map(queueOf), FOLLOW_QUEUE]);
    const endings = await Promise.allSettled(
      sleepers.map(({ sent }) => sent.result({ timeout: '90s' })),
    );
    const freed = sleepers.find(({ point }) => point === 'worker.ended-not-freed');
    expect(
      endings.flatMap(({ status }, at) =>
        status === 'fulfilled' || sleepers[at] === freed ? [] : [sleepers[at]?.point],
      ),
    ).toEqual([]);
    // Its task is a dead letter; the key that it still holds goes to the next that wants it.
    const heir = freed && (await dormitory.push(freed.point));
    expect(await heir?.result({ timeout: '90s' })).toEqual(heir && { pid: others.pid });
    const hasFollowed = points.includes('worker.committed-not-followed') ? 1 : 0;
    const follows = async (): Promise<number> =>
      (await dormitory.database.pool.query(`select 1 from effect where name = 'sleep.follow'`))
        .rowCount ?? 0;
    await until(async () => (await follows()) === hasFollowed);
    await until(async () => (await dormitory.nowMs()) > asleepAt + 2 * LEASE_MS);
    expect(await dormitory.end(others)).toBe(0);

    await Promise.all(sleepers.map(sleeper => wake(dormitory, sleeper)));
    expect(await follows()).toBe(hasFollowed);
    for (const sleeper of sleepers) if (sleeper !== freed) await audit(dormitory, sleeper);
    if (freed === undefined || heir === undefined) return;
    expect(await freed.sent.state()).toBe('dead');
    expect(await dormitory.epochsOf('effect', freed.sent.id)).toEqual([]);
    // The one that woke freed its own hold, not the key: whoever comes now gets the result that is there.
    await audit(dormitory, { ...freed, sent: heir });
  });

  it.each(COMPUTING_S)(
    'a worker that computes for %i s, longer than its lease, is not declared dead',
    async seconds => {
      const dormitory = await Dormitory.open(await open());
      const child = dormitory.start(['compute']);
      const sent = await dormitory.outlast.push(
        compute,
        { ms: seconds * 1_000 },
        { queue: 'compute' },
      );
      expect(await sent.result({ timeout: '120s' })).toEqual({ pid: child.pid });
      const found = await createAdmin(dormitory.outlast).tasks.inspect(sent.id);
      expect(found).toMatchObject({ state: 'done', crashes: 0 });
      expect(await dormitory.epochsOf('run', sent.id)).toEqual([found?.epoch]);
      expect(await dormitory.end(child)).toBe(0);
    },
  );

  it('a worker that computes for ever is killed after maxBlock, and its task is dead when its budget is spent', async () => {
    const dormitory = await Dormitory.open(await open());
    const sent = await dormitory.outlast.push(compute, {}, { queue: 'compute' });
    for (let process = 1; process <= 2; process++) {
      const child = dormitory.start(['compute'], undefined, { OUTLAST_WORKER_MAX_BLOCK: '600ms' });
      expect(await dormitory.ended(child)).toBe('SIGKILL');
    }
    await expect(sent.result({ timeout: '60s' })).rejects.toMatchObject({
      code: 'ERR_TASK_FAILED',
      type: 'ERR_RESURRECTIONS_SPENT',
    });
    expect(await dormitory.epochsOf('run', sent.id)).toHaveLength(2);
  });
});
