import type { ChildProcess } from 'node:child_process';
import { describe, expect, it, onTestFinished } from 'vitest';
import { createOutlast, startRelay, startWorker, task } from '../../dist/index.js';
import type { FaultPointName } from '../../src/runtime/runtime.ts';
import { unique } from '../conformance/envelopes.ts';
import { until } from '../support/database.ts';
import { rabbitmqUrl } from '../support/servers.ts';
import { ChaosKit } from './chaos-kit.ts';
import { ownRedis, type Servers } from './dormitory.ts';

/** `OUTLAST_TEST_SCHEDULE_SLOTS=10000`: the long form, a hundred schedules for a hundred seconds. */
const SLOTS = Number(process.env['OUTLAST_TEST_SCHEDULE_SLOTS'] ?? 90);
const SCHEDULES = Math.max(6, Math.round(SLOTS / 100));
const EACH = Math.ceil(SLOTS / SCHEDULES);

const POINTS = [
  'schedule.due',
  'schedule.locked-not-written',
  'schedule.written-not-advanced',
  'schedule.advanced-not-committed',
  'schedule.committed-not-reported',
] as const satisfies readonly FaultPointName[];
const isLong = SLOTS > 1_000;
const FAULTS = POINTS.flatMap(point => [
  { point, action: 'kill' as const },
  { point, action: 'stop' as const },
]);

const TIERS: readonly { readonly tier: string; readonly open: () => Promise<Servers> }[] = [
  { tier: 'PostgreSQL', open: async () => ({}) },
  { tier: 'Redis', open: async () => ({ broker: await ownRedis() }) },
  { tier: 'RabbitMQ', open: async () => ({ broker: rabbitmqUrl() }) },
];

/** How often each fault struck, until the signal. */
async function strike(
  kit: ChaosKit,
  env: Record<string, string>,
  isOver: () => boolean,
): Promise<Record<string, number>> {
  const struck: Record<string, number> = {};
  const isDone = (): boolean => !isLong || isOver();
  for (let nth = 0; nth < FAULTS.length || !isDone(); nth++) {
    const fault = FAULTS[nth % FAULTS.length];
    if (fault === undefined) break;
    const { point, action } = fault;
    const armed = kit.arm(point, action);
    const child: ChildProcess = kit.start('resurrector', { ...env, ...armed.env });
    await until(async () => armed.hasHit() || isOver());
    if (armed.hasHit()) {
      const key = `${point} ${action}`;
      struck[key] = (struck[key] ?? 0) + 1;
      if (action === 'stop') {
        // It wakes when others have fired further slots.
        const before = await firedIn(kit);
        await until(async () => (await firedIn(kit)) > before || isOver());
        child.kill('SIGCONT');
      }
    }
    child.kill('SIGTERM');
    await kit.exited(child);
  }
  return struck;
}

async function firedIn({ database }: ChaosKit): Promise<number> {
  const { rows } = await database.pool.query<{ n: string }>(
    'select sum(fired) as n from outlast_schedule',
  );
  return Number(rows[0]?.n);
}

describe('schedulers killed and put to sleep (SIGCONT) at every point', () => {
  it.each(TIERS)(
    'fire each slot once on $tier',
    async ({ open }) => {
      const kit = await ChaosKit.create('schedules');
      onTestFinished(() => kit.dispose());
      const { pool, url } = kit.database;
      await pool.query('create table slot (schedule text not null, slot timestamptz not null)');
      const servers = await open();
      const queue = unique('schedules');
      const tick = task('chaos.tick', { queue });
      const outlast = createOutlast({ database: url, ...servers });
      onTestFinished(() => outlast.close());
      const handler = outlast.handler(tick, async (_, ctx) => {
        const { name, slot } = ctx.schedule ?? {};
        await pool.query('insert into slot values ($1, $2)', [name, slot]);
      });
      const worker = await startWorker(outlast, { tasks: [handler], queues: [queue] });
      onTestFinished(() => worker.stop());
      if (servers.broker !== undefined) {
        const relay = await startRelay(outlast);
        onTestFinished(() => relay.stop());
      }
      const clock = await pool.query<{ ms: string }>(
        'select (extract(epoch from clock_timestamp()) * 1000)::bigint as ms',
      );
      // The children have started by then.
      const startMs = Math.ceil(Number(clock.rows[0]?.ms) / 1_000) * 1_000 + 5_000;
      // The faults of the short form must have slots to strike at, however slow the machine is.
      const each = isLong ? EACH : 600;
      const options = {
        call: tick.with(),
        every: '1s',
        start: new Date(startMs),
        end: new Date(startMs + (each - 1) * 1_000),
        catchUp: 'all',
        maxCatchUp: 1_000,
        grace: '1h',
      } as const;
      for (let nth = 0; nth < SCHEDULES; nth++) await outlast.schedules.put(`s${nth}`, options);
      let isOver = false;
      const env: Record<string, string> =
        servers.broker === undefined ? {} : { OUTLAST_BROKER_URL: servers.broker };
      const striking = strike(kit, env, () => isOver);
      if (isLong) await until(async () => (await firedIn(kit)) >= SCHEDULES * each);
      else {
        // All faults have struck once; what is due by then must have fired.
        await striking.catch(() => undefined);
      }
      isOver = true;
      const struck = await striking;
      const stopped = await outlast.schedules.list();
      for (const { name } of stopped) await outlast.schedules.pause(name);
      const fired = await firedIn(kit);
      const counted = async (): Promise<{ all: string; once: string }> =>
        (
          await pool.query<{ all: string; once: string }>(
            'select count(*) as all, count(distinct (schedule, slot)) as once from slot',
          )
        ).rows[0] ?? { all: '0', once: '0' };
      await until(async () => Number((await counted()).once) >= fired);
      expect(await counted()).toEqual({ all: String(fired), once: String(fired) });
      // None is left out: from the first slot to the last each schedule has every one.
      const gaps = await pool.query(
        `select schedule from slot group by schedule
         having count(*) <> extract(epoch from max(slot) - min(slot)) + 1
           or extract(epoch from min(slot)) * 1000 <> $1`,
        [startMs],
      );
      expect(gaps.rows).toEqual([]);
      for (const { missed, error } of await outlast.schedules.list())
        expect([missed, error]).toEqual([0, null]);
      expect(Object.keys(struck).toSorted()).toEqual(
        FAULTS.map(({ point, action }) => `${point} ${action}`).toSorted(),
      );
      if (isLong) {
        expect(fired).toBe(SCHEDULES * each);
        process.stdout.write(`${fired} slots, each once; ${JSON.stringify(struck)}\n`);
      }
    },
    isLong ? 900_000 : undefined,
  );
});
