import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import type { PoolClient } from 'pg';
import {
  createOutlast,
  startRelay,
  startResurrector,
  task,
  unchecked,
  type Outlast,
  type SendOptions,
  type Service,
  type TaskHandle,
} from '../../dist/index.js';
import { fromPg } from '../../dist/adapters/transactions/pg.js';
import { FAULT_POINTS, type FaultPointName } from '../../src/runtime/runtime.ts';
import { until } from '../support/database.ts';
import { ChaosKit } from './chaos-kit.ts';

interface Input {
  readonly fails?: boolean;
  readonly waits?: boolean;
  readonly saves?: boolean;
  /** Later runs continue when this file exists. */
  readonly until?: string;
}
const effect = task('chaos.effect', {
  input: unchecked<Input>(),
  result: unchecked<{ epoch: number }>(),
  queue: 'chaos',
});
const follow = task('chaos.follow', { input: unchecked<unknown>(), queue: 'chaos' });

let kit: ChaosKit;
let outlast: Outlast<PoolClient>;
let services: Service[];

beforeAll(async () => {
  kit = await ChaosKit.create('chaos');
  outlast = createOutlast({
    database: kit.database.url,
    adapter: fromPg(kit.database.pool),
    worker: { lease: '2s', beat: '300ms' },
  });
  services = [await startRelay(outlast), await startRecovery()];
});

afterEach(() => kit.endAll());

afterAll(async () => {
  for (const service of services) await service.stop();
  await outlast.close();
  await kit.dispose();
});

const startRecovery = (): Promise<Service> =>
  startResurrector(outlast, { interval: '100ms', afterDelay: '500ms' });

const send = (
  input: Input = {},
  options: SendOptions = {},
): Promise<TaskHandle<{ epoch: number }>> =>
  outlast.transaction(tx => outlast.send(tx, effect, input, options));

interface Scenario {
  readonly point: FaultPointName;
  /** The input that makes the task reach the point. */
  readonly input?: Input;
  readonly options?: SendOptions;
  /** Runs that were begun: one more where the first was lost before it was settled. */
  readonly epochs: readonly number[];
}

/** A worker process dies at the point; the next one, started by its supervisor, finishes. */
const WORKER_DIES: readonly Scenario[] = [
  // It leaves the only reservation behind: the next run finds it taken, and its owner.
  { point: 'worker.admitted-not-run', options: { tenant: 'narrow' }, epochs: [2] },
  { point: 'worker.begun-not-started', epochs: [2] },
  { point: 'door.fenced', epochs: [2] },
  { point: 'door.effect-not-committed', epochs: [2] },
  { point: 'door.committed-not-reported', epochs: [2] },
  { point: 'worker.checkpoint-kept-not-reported', input: { saves: true }, epochs: [2] },
  { point: 'worker.ran-not-committed', epochs: [2] },
  { point: 'worker.failed-not-reported', input: { fails: true }, epochs: [2, 3] },
  { point: 'worker.committed-not-followed', options: { link: follow }, epochs: [1] },
  { point: 'heartbeat.renewed', input: { waits: true }, epochs: [2] },
];

/** Killed in sleepers.test.ts, with a separate broker. */
const SEPARATE_BROKER: readonly FaultPointName[] = [
  'worker.taken-not-begun',
  'worker.committed-not-acked',
];
/** Killed in relay-faults.test.ts, with outbox and broker in different databases. */
const RELAY: readonly FaultPointName[] = [
  'relay.claimed',
  'relay.before-publish',
  'relay.written-not-confirmed',
  'relay.published-not-settled',
  'relay.mid-settle',
  'relay.moved',
];
/** Killed in end-to-end.test.ts. */
const RECEIPTS: readonly FaultPointName[] = ['relay.looked-not-settled'];
/** Killed in idempotency.test.ts. */
const KEYS: readonly FaultPointName[] = ['worker.kept-not-committed', 'worker.ended-not-freed'];
/** Killed in celery-chords.test.ts, with a real Celery. */
const CHORDS: readonly FaultPointName[] = ['chord.reported-not-acked'];
/** Killed in in-part.test.ts, with a separate broker. */
const IN_PART: readonly FaultPointName[] = ['ledger.begun-in-part', 'ledger.committed-in-part'];
/** Killed in move.test.ts. */
const MOVES: readonly FaultPointName[] = [
  'refusals.published-not-handed-back',
  'move.messages-in-not-acked',
  'move.tasks-in-not-ended',
  'move.mid-end',
  'move.emptied-not-forgotten',
];
/** Killed in schedules.test.ts. */
const SCHEDULES: readonly FaultPointName[] = [
  'schedule.due',
  'schedule.locked-not-written',
  'schedule.written-not-advanced',
  'schedule.advanced-not-committed',
  'schedule.committed-not-reported',
];
const OTHERS: readonly FaultPointName[] = [
  'worker.drain-before-release',
  'reaper.closed-not-requeued',
  'reaper.mid-chunk',
];

it('covers every fault point', () => {
  const covered = [
    ...WORKER_DIES.map(({ point }) => point),
    ...SEPARATE_BROKER,
    ...RELAY,
    ...RECEIPTS,
    ...KEYS,
    ...CHORDS,
    ...IN_PART,
    ...MOVES,
    ...SCHEDULES,
    ...OTHERS,
  ];
  expect(covered.toSorted()).toEqual([...FAULT_POINTS].toSorted());
});

describe('a worker process killed', () => {
  it.each(WORKER_DIES)(
    'at $point: the task is done and has its effect once',
    async ({ point, input, options, epochs }) => {
      const fault = kit.arm(point);
      const supervisor = kit.start('worker', fault.env);
      const sent = await send(input, options);
      expect(epochs).toContain((await sent.result({ timeout: '60s' })).epoch);
      // The result may be read before the worker comes to a point behind the commit.
      await until(async () => fault.hasHit());
      expect(await kit.count('effect', sent.id)).toBe(1);
      if (options?.link) {
        const linked = await until(
          async () =>
            (
              await kit.database.pool.query<{ id: string }>(
                `select id from outlast_task where name = 'chaos.follow' and state = 'done'`,
              )
            ).rows[0],
        );
        expect(await kit.count('effect', linked.id)).toBe(1);
      }
      expect(await kit.stop(supervisor)).toBe('code 0');
    },
  );

  it('in the middle of a drain, before it released: its task comes back', async () => {
    const fault = kit.arm('worker.drain-before-release');
    const supervisor = kit.start('worker', fault.env);
    const sent = await send({ waits: true });
    await kit.runnerOf(sent.id);
    await kit.stop(supervisor);
    expect(fault.hasHit()).toBe(true);
    const next = kit.start('worker');
    expect((await sent.result({ timeout: '60s' })).epoch).toBe(2);
    expect(await kit.count('effect', sent.id)).toBe(1);
    await kit.stop(next);
  });
});

describe('a reaper killed', () => {
  it.each(['reaper.closed-not-requeued', 'reaper.mid-chunk'] as const)(
    'at %s: another reaper continues, and the incarnation is closed',
    async point => {
      // Only the supervisor may find them; otherwise no chunk is left to die in.
      await services.pop()?.stop();
      const fault = kit.arm(point);
      const supervisor = kit.start('worker', fault.env);
      const sent = [await send({ waits: true }), await send({ waits: true })];
      const pids = await Promise.all(sent.map(({ id }) => kit.runnerOf(id)));
      process.kill(pids[0] as number, 'SIGKILL');
      expect(await kit.exited(supervisor)).toBe('SIGKILL');
      expect(fault.hasHit()).toBe(true);
      services.push(await startRecovery());
      const next = kit.start('worker');
      for (const handle of sent) {
        expect((await handle.result({ timeout: '60s' })).epoch).toBe(2);
        expect(await kit.count('effect', handle.id)).toBe(1);
      }
      await kit.stop(next);
    },
  );
});

describe('a reaper asleep', () => {
  it.each(['reaper.closed-not-requeued', 'reaper.mid-chunk'] as const)(
    'at %s takes nothing from the workers that run the tasks when it wakes',
    async point => {
      await services.pop()?.stop();
      const fault = kit.arm(point, 'stop');
      const supervisor = kit.start('worker', fault.env);
      const goOn = kit.makeFlag();
      const input = { waits: true, until: goOn.file };
      const sent = [await send(input), await send(input)];
      const pids = await Promise.all(sent.map(({ id }) => kit.runnerOf(id)));
      process.kill(pids[0] as number, 'SIGKILL');
      await until(async () => fault.hasHit());
      services.push(await startRecovery());
      const other = kit.start('worker');
      for (const { id } of sent)
        await until(async () => (await kit.runnerOf(id)) !== pids[0] && (await kit.runnerOf(id)));
      supervisor.kill('SIGCONT');
      // It is awake when its dead child has a successor.
      const open = `select 1 from outlast_worker where state = 'open' and deadline > clock_timestamp()`;
      await until(async () => (await kit.database.pool.query(open)).rowCount === 2);
      goOn.set();
      for (const handle of sent) {
        expect((await handle.result({ timeout: '60s' })).epoch).toBe(2);
        expect(await kit.count('effect', handle.id)).toBe(1);
      }
      for (const child of [supervisor, other]) expect(await kit.stop(child)).toBe('code 0');
    },
  );
});

describe('a supervisor killed together with its processes', () => {
  it('leaves a lease that expires: another host runs the task then, and its effect happens once', async () => {
    const gone = kit.start('worker');
    const sent = await send({ waits: true });
    const pid = await kit.runnerOf(sent.id);
    gone.kill('SIGKILL');
    process.kill(pid, 'SIGKILL');
    const next = kit.start('worker');
    expect((await sent.result({ timeout: '60s' })).epoch).toBe(2);
    expect(await kit.count('effect', sent.id)).toBe(1);
    expect(await kit.stop(next)).toBe('code 0');
  });
});

describe('an endless loop', () => {
  it('is declared stuck after maxBlock, killed, and dead when the crash budget is spent', async () => {
    const supervisor = kit.start('worker', { OUTLAST_WORKER_MAX_BLOCK: '600ms' });
    const endless = task('chaos.endless', { input: unchecked<object>(), queue: 'chaos' });
    const sent = await outlast.transaction(tx => outlast.send(tx, endless, {}));
    await expect(sent.result({ timeout: '60s' })).rejects.toMatchObject({
      code: 'ERR_TASK_FAILED',
      type: 'ERR_RESURRECTIONS_SPENT',
    });
    expect(await kit.count('run', sent.id)).toBe(2);
    await kit.stop(supervisor);
  });
});
