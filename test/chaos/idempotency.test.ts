import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { PoolClient } from 'pg';
import {
  createOutlast,
  startRelay,
  startResurrector,
  task,
  unchecked,
  type Outlast,
  type Service,
  type TaskHandle,
} from '../../dist/index.js';
import { fromPg } from '../../dist/adapters/transactions/pg.js';
import { until } from '../support/database.ts';
import { ChaosKit } from './chaos-kit.ts';

interface Input {
  readonly order: string;
  readonly stages?: boolean;
  readonly fails?: boolean;
}
interface Answer {
  readonly id: string;
  readonly epoch: number;
}

const keyed = task('chaos.keyed', {
  input: unchecked<Input>(),
  result: unchecked<Answer>(),
  queue: 'chaos',
  idempotent: true,
});
const DUPLICATES = 50;

let kit: ChaosKit;
let outlast: Outlast<PoolClient>;
let services: Service[];

beforeAll(async () => {
  kit = await ChaosKit.create('chaos_keys');
  outlast = createOutlast({
    database: kit.database.url,
    adapter: fromPg(kit.database.pool),
    worker: { lease: '2s', beat: '300ms' },
  });
  services = [await startRelay(outlast), await startResurrector(outlast, { interval: '100ms' })];
});

afterAll(async () => {
  for (const service of services) await service.stop();
  await outlast.close();
  await kit.dispose();
});

const send = (input: Input): Promise<TaskHandle<Answer>> =>
  outlast.transaction(tx => outlast.send(tx, keyed, input));

const rows = async (table: 'run' | 'effect', handles: readonly TaskHandle[]) =>
  (
    await kit.database.pool.query<{ task_id: string; pid: number }>(
      `select task_id, pid from ${table} where task_id = any($1) order by at`,
      [handles.map(({ id }) => id)],
    )
  ).rows;

const isInsideDoor = async (): Promise<boolean> => {
  const text = `select 1 from pg_stat_activity
    where datname = current_database() and state = 'idle in transaction' and query like 'insert into effect%'`;
  return ((await kit.database.pool.query(text)).rowCount ?? 0) > 0;
};

describe('duplicates whose worker processes are killed', () => {
  it('before, inside and after the effect have it once, and all of them get its result', async () => {
    const supervisors = [kit.start('worker'), kit.start('worker')];
    const input = { order: '17', stages: true };
    const handles = await Promise.all(Array.from({ length: DUPLICATES }, () => send(input)));
    for (let stage = 1; stage <= 3; stage++) {
      const pid = await until(async () => (await rows('run', handles))[stage - 1]?.pid);
      // Inside the door the effect is not visible, but the open session is.
      if (stage === 2) await until(isInsideDoor);
      if (stage === 3) await until(async () => (await rows('effect', handles)).length);
      process.kill(pid, 'SIGKILL');
    }
    const results = await Promise.all(handles.map(handle => handle.result({ timeout: '80s' })));
    const [first] = results;
    for (const result of results) expect(result).toEqual(first);
    expect(await rows('effect', handles)).toHaveLength(1);
    const runs = await rows('run', handles);
    expect(runs.map(run => run.task_id)).toEqual(Array.from({ length: 4 }, () => first?.id));
    const { rows: spent } = await kit.database.pool.query(
      'select id from outlast_task where id = any($1) and failures > 0',
      [handles.map(({ id }) => id)],
    );
    expect(spent).toEqual([]);
    for (const supervisor of supervisors) await kit.stop(supervisor);
  });

  it('between the stored result and the commit: the next run commits it without another effect', async () => {
    const fault = kit.arm('worker.kept-not-committed');
    const supervisor = kit.start('worker', fault.env);
    const sent = await send({ order: '18' });
    expect(await sent.result({ timeout: '60s' })).toEqual({ id: sent.id, epoch: 1 });
    expect(fault.hasHit()).toBe(true);
    expect(await rows('run', [sent])).toHaveLength(1);
    expect(await rows('effect', [sent])).toHaveLength(1);
    const duplicate = await send({ order: '18' });
    expect(await duplicate.result({ timeout: '60s' })).toEqual({ id: sent.id, epoch: 1 });
    await kit.stop(supervisor);
  });

  it('between the death of the holder and the end of its key: a waiting task takes the key over', async () => {
    const fault = kit.arm('worker.ended-not-freed');
    const supervisor = kit.start('worker', fault.env);
    const handles = [
      await send({ order: '19', fails: true }),
      await send({ order: '19', fails: true }),
    ];
    const endings = await Promise.allSettled(
      handles.map(handle => handle.result({ timeout: '60s' })),
    );
    expect(fault.hasHit()).toBe(true);
    expect(endings.map(({ status }) => status).sort()).toEqual(['fulfilled', 'rejected']);
    expect(await rows('run', handles)).toHaveLength(2);
    expect(await rows('effect', handles)).toHaveLength(1);
    await kit.stop(supervisor);
  });
});
