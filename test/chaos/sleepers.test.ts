import type { ChildProcess } from 'node:child_process';
import { readFileSync, writeFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { createAdmin } from '../../dist/admin/index.js';
import { task, unchecked, type SendOptions, type TaskHandle } from '../../dist/index.js';
import { FAULT_POINTS, type FaultPointName } from '../../src/runtime/runtime.ts';
import { unique } from '../conformance/envelopes.ts';
import { until } from '../support/database.ts';
import { rabbitmqUrl } from '../support/servers.ts';
import { Dormitory, LEASE_MS, ownRedis, type Servers } from './dormitory.ts';

/** A RabbitMQ is shared with other tests. */
const OWN = unique('queue');
const FOLLOW_QUEUE = `${OWN}-follow`;

interface Input {
  /** The point at which it sleeps. */
  readonly at?: string;
  readonly fails?: boolean;
  readonly waits?: boolean;
  readonly saves?: boolean;
  /** Later runs of the task continue when this file exists. */
  readonly heirWaits?: string;
}

const shape = { input: unchecked<Input>(), result: unchecked<{ pid: number }>() };
const effect = task('sleep.effect', shape);
const keyed = task('sleep.keyed', { ...shape, idempotent: true });
const follow = task('sleep.follow', { ...shape, queue: FOLLOW_QUEUE });

interface Scenario {
  readonly input?: Input;
  readonly options?: SendOptions;
  readonly isKeyed?: boolean;
  /** It has settled the run in the ledger before it sleeps: no other worker gets the task. */
  readonly isOver?: boolean;
  /** It sleeps before the handler: when it wakes it must not call it. */
  readonly isBefore?: boolean;
}

/** The input that makes a process reach the point. */
const SCENARIOS = {
  'worker.taken-not-begun': { isBefore: true },
  'worker.admitted-not-run': { options: { tenant: 'narrow' }, isBefore: true },
  'worker.begun-not-started': { isBefore: true },
  'worker.checkpoint-kept-not-reported': { input: { saves: true } },
  'worker.ran-not-committed': {},
  'worker.kept-not-committed': { isKeyed: true },
  'worker.committed-not-acked': { isOver: true },
  'worker.committed-not-followed': { options: { link: follow.with({}) }, isOver: true },
  'worker.failed-not-reported': { input: { fails: true } },
  'worker.ended-not-freed': { input: { fails: true }, isKeyed: true, isOver: true },
  'worker.drain-before-release': { input: { waits: true } },
  'door.fenced': {},
  'door.effect-not-committed': {},
  'door.committed-not-reported': {},
  'heartbeat.renewed': { input: { waits: true } },
} as const satisfies Partial<Record<FaultPointName, Scenario>>;
type Point = keyof typeof SCENARIOS;

const ALL = Object.keys(SCENARIOS) as Point[];
const SEPARATE_BROKER: readonly Point[] = ['worker.taken-not-begun', 'worker.committed-not-acked'];
const without = (...points: readonly Point[]): readonly Point[] =>
  ALL.filter(point => !points.includes(point));

const TIERS: readonly {
  readonly tier: string;
  /** Points that a task passes there. */
  readonly points: readonly Point[];
  readonly open: () => Promise<Servers>;
}[] = [
  { tier: 'PostgreSQL', points: without(...SEPARATE_BROKER), open: async () => ({}) },
  {
    // The copy at the broker is acknowledged at `begin`.
    tier: 'broker and ledger in one Redis',
    points: without('worker.committed-not-acked'),
    open: async () => ({ broker: await ownRedis() }),
  },
  {
    tier: 'broker and ledger in two Redis',
    points: SEPARATE_BROKER,
    open: async () => ({ broker: await ownRedis(), ledger: await ownRedis() }),
  },
  {
    // Two missed heartbeats end a connection, and its messages are delivered elsewhere.
    tier: 'RabbitMQ and PostgreSQL',
    points: SEPARATE_BROKER,
    open: async () => ({ broker: `${rabbitmqUrl()}?heartbeat=2` }),
  },
];

const REAPERS = ['reaper.closed-not-requeued', 'reaper.mid-chunk'] as const;

/** Points at which another test file puts processes to sleep. */
const ELSEWHERE: Readonly<
  Record<Exclude<FaultPointName, Point | (typeof REAPERS)[number]>, string>
> = {
  'relay.claimed': './relay-faults.test.ts',
  'relay.before-publish': './relay-faults.test.ts',
  'relay.written-not-confirmed': './relay-faults.test.ts',
  'relay.published-not-settled': './relay-faults.test.ts',
  'relay.mid-settle': './relay-faults.test.ts',
  'relay.moved': './relay-faults.test.ts',
  'relay.looked-not-settled': '../integration/end-to-end.test.ts',
  'ledger.begun-in-part': './in-part.test.ts',
  'ledger.committed-in-part': './in-part.test.ts',
  'chord.reported-not-acked': '../interop/celery-chords.test.ts',
  'refusals.published-not-handed-back': './move.test.ts',
  'schedule.due': './schedules.test.ts',
  'schedule.locked-not-written': './schedules.test.ts',
  'schedule.written-not-advanced': './schedules.test.ts',
  'schedule.advanced-not-committed': './schedules.test.ts',
  'schedule.committed-not-reported': './schedules.test.ts',
  'move.messages-in-not-acked': './move.test.ts',
  'move.tasks-in-not-ended': './move.test.ts',
  'move.mid-end': './move.test.ts',
  'move.emptied-not-forgotten': './move.test.ts',
};

it('puts processes to sleep at every fault point', () => {
  const covered = [...ALL, ...REAPERS, ...Object.keys(ELSEWHERE)];
  expect(covered.toSorted()).toEqual([...FAULT_POINTS].toSorted());
  for (const [point, file] of Object.entries(ELSEWHERE)) {
    const text = readFileSync(new URL(file, import.meta.url), 'utf8');
    expect([file, text.includes(point), text.includes('SIGCONT')]).toEqual([file, true, true]);
  }
});

const queueOf = (point: Point): string => `${OWN}-${point.replaceAll('.', '-')}`;

const hasFollowUp = (points: readonly Point[]): number =>
  points.includes('worker.committed-not-followed') ? 1 : 0;

const followsIn = async ({ database }: Dormitory): Promise<number> =>
  (await database.pool.query(`select 1 from effect where name = 'sleep.follow'`)).rowCount ?? 0;

/** The task that makes a process reach the point. */
async function push({ outlast }: Dormitory, point: Point): Promise<TaskHandle<{ pid: number }>> {
  const { input, options, isKeyed = false }: Scenario = SCENARIOS[point];
  const all = { ...options, queue: queueOf(point) };
  return await outlast.push(isKeyed ? keyed : effect, { at: point, ...input }, all);
}

interface Sleeper {
  readonly point: Point;
  readonly child: ChildProcess;
  readonly sent: TaskHandle<{ pid: number }>;
}

/** Puts a process to sleep at the point, or kills it there. */
async function halt(
  dormitory: Dormitory,
  point: Point,
  action: 'stop' | 'kill' = 'stop',
): Promise<Sleeper> {
  // The process that owes a follow-up could also run it, if it were published twice.
  const owes = point === 'worker.committed-not-followed' ? [FOLLOW_QUEUE] : [];
  const child = dormitory.start([queueOf(point), ...owes], point, {
    action,
    // Shorter than its sleep: its event loop has stood still, but so has the thread that watches it.
    OUTLAST_WORKER_MAX_BLOCK: '3s',
  });
  const sent = await push(dormitory, point);
  if (point === 'worker.drain-before-release') {
    await until(async () => (await dormitory.epochsOf('run', sent.id)).length);
    child.kill('SIGTERM');
  }
  await until(async () => dormitory.isAsleep(point, action));
  return { point, child, sent };
}

/** It is awake when it has answered for another task; a process that drained has only to exit. */
async function wake(dormitory: Dormitory, { point, child }: Sleeper, heir?: number): Promise<void> {
  child.kill('SIGCONT');
  if (point === 'worker.ended-not-freed') {
    // It frees its own hold and not the key, which belongs to another task: the next task gets that result.
    const duplicate = await push(dormitory, point);
    expect(await duplicate.result({ timeout: '60s' })).toEqual({ pid: heir });
  } else if (point !== 'worker.drain-before-release') {
    const next = await dormitory.outlast.push(effect, {}, { queue: queueOf(point) });
    expect([point, await next.result({ timeout: '60s' })]).toEqual([point, { pid: child.pid }]);
  }
  expect([point, await dormitory.end(child)]).toEqual([point, 0]);
}

async function audit(dormitory: Dormitory, { point, sent }: Sleeper): Promise<void> {
  const { isOver = false, isBefore = false }: Scenario = SCENARIOS[point];
  const found = await createAdmin(dormitory.outlast).tasks.inspect(sent.id);
  const done = found?.history.filter(({ step }) => step === 'done') ?? [];
  expect([point, found?.state, done.length]).toEqual([point, 'done', 1]);
  const [runs, effects] = [
    await dormitory.epochsOf('run', sent.id),
    await dormitory.epochsOf('effect', sent.id),
  ];
  expect([point, effects.length]).toEqual([point, 1]);
  // No run happens twice, and none is entered by a process that slept right before it.
  expect([point, new Set(runs).size]).toEqual([point, runs.length]);
  // No commit for a run that was taken away: the run that ended the task is the last one that was begun.
  expect([point, done[0]?.epoch]).toEqual([point, found?.epoch]);
  expect([point, found?.epoch]).toEqual([point, Math.max(found?.epoch ?? 0, ...runs, ...effects)]);
  if (isOver || isBefore) expect([point, runs.length]).toEqual([point, 1]);
}

describe.each(TIERS)('on $tier', ({ points, open }) => {
  it('a worker that sleeps at any point for twice its lease commits nothing late and has no effect twice', async () => {
    const dormitory = await Dormitory.open(await open());
    const sleepers = await Promise.all(points.map(point => halt(dormitory, point)));
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
    // Its task is a dead letter; the key that it still holds goes to the next task that wants it.
    const heir = freed && (await push(dormitory, freed.point));
    expect(await heir?.result({ timeout: '90s' })).toEqual(heir && { pid: others.pid });
    await until(async () => (await followsIn(dormitory)) === hasFollowUp(points));
    await until(async () => (await dormitory.nowMs()) > asleepAt + 2 * LEASE_MS);
    expect(await dormitory.end(others)).toBe(0);

    await Promise.all(sleepers.map(sleeper => wake(dormitory, sleeper, others.pid)));
    expect(await followsIn(dormitory)).toBe(hasFollowUp(points));
    for (const sleeper of sleepers) if (sleeper !== freed) await audit(dormitory, sleeper);
    if (freed === undefined || heir === undefined) return;
    expect(await freed.sent.state()).toBe('dead');
    expect(await dormitory.epochsOf('effect', freed.sent.id)).toEqual([]);
    await audit(dormitory, { ...freed, sent: heir });
  });
});

describe.each(TIERS)('on $tier', ({ points, open }) => {
  it('a worker killed at any point loses nothing and repeats no effect', async () => {
    const dormitory = await Dormitory.open(await open());
    const killed = await Promise.all(points.map(point => halt(dormitory, point, 'kill')));
    for (const { child } of killed) expect(await dormitory.ended(child)).toBe('SIGKILL');
    const others = dormitory.start([...points.map(queueOf), FOLLOW_QUEUE]);
    for (const { point, sent } of killed) {
      // It dies after its last attempt: its task is a dead letter.
      if (point === 'worker.ended-not-freed') {
        await expect(sent.result({ timeout: '60s' })).rejects.toMatchObject({
          code: 'ERR_TASK_FAILED',
        });
        expect(await dormitory.epochsOf('effect', sent.id)).toEqual([]);
      } else await sent.result({ timeout: '60s' });
    }
    await until(async () => (await followsIn(dormitory)) === hasFollowUp(points));
    for (const one of killed)
      if (one.point !== 'worker.ended-not-freed') await audit(dormitory, one);
    expect(await dormitory.end(others)).toBe(0);
  });
});

/** Two tasks that other workers run although their reaper was killed, or by the time it wakes. */
async function haltReaper(
  servers: Servers,
  point: (typeof REAPERS)[number],
  action: 'kill' | 'stop',
): Promise<void> {
  const dormitory = await Dormitory.open(servers, { recovers: false });
  const queue = unique('queue');
  const heirWaits = dormitory.fileOf('heir');
  // It is killed before it reaches the point.
  const lost = dormitory.start([queue], 'worker.drain-before-release');
  const reaper = dormitory.startReaper(point, action);
  const input = { waits: true, heirWaits };
  const sent = await Promise.all(
    [1, 2].map(() => dormitory.outlast.push(effect, input, { queue })),
  );
  const ranTimes = async (times: number): Promise<boolean> =>
    (await Promise.all(sent.map(({ id }) => dormitory.epochsOf('run', id)))).every(
      runs => runs.length === times,
    );
  await until(() => ranTimes(1));
  lost.kill('SIGKILL');
  await until(async () => dormitory.isAsleep(point, action));
  const asleepAt = await dormitory.nowMs();
  await dormitory.recover();
  const heir = dormitory.start([queue]);
  await until(() => ranTimes(2));
  await until(async () => (await dormitory.nowMs()) > asleepAt + 2 * LEASE_MS);
  reaper.kill('SIGCONT');
  // The look in which it slept is over when it has exited.
  const endedBy = action === 'kill' ? 'SIGKILL' : 0;
  expect([point, await dormitory.end(reaper)]).toEqual([point, endedBy]);
  writeFileSync(heirWaits, '');
  for (const handle of sent) {
    expect(await handle.result({ timeout: '60s' })).toEqual({ pid: heir.pid });
    const found = await createAdmin(dormitory.outlast).tasks.inspect(handle.id);
    expect([point, found?.state, found?.crashes]).toEqual([point, 'done', 1]);
    expect(await dormitory.epochsOf('effect', handle.id)).toEqual([found?.epoch]);
  }
  expect(await ranTimes(2)).toBe(true);
  expect(await dormitory.end(heir)).toBe(0);
}

// On PostgreSQL: fault-points.test.ts.
describe('on Redis', () => {
  it('a reaper killed, or asleep for twice the lease, at any point leaves nothing behind and takes nothing from running workers', async () => {
    const halted = (['kill', 'stop'] as const).flatMap(action =>
      REAPERS.map(async point => await haltReaper({ broker: await ownRedis() }, point, action)),
    );
    await Promise.all(halted);
  });
});
