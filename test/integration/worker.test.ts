import { describe, expect, it } from 'vitest';
import { z } from 'zod';
import { createAdmin } from '../../dist/admin/index.js';
import { startResurrector, task, unchecked } from '../../dist/index.js';
import { gate, until } from '../support/database.ts';
import { useWorkerKit } from '../support/worker-kit.ts';

const kit = useWorkerKit();

describe('a pruned task', () => {
  it('stays in the totals', async () => {
    const { name, queue } = kit().names();
    const done = task(name, { queue });
    await kit().withWorker([kit().outlast.handler(done, () => undefined)], async () => {
      await (await kit().outlast.push(done)).result();
    });
    const before = (await createAdmin(kit().outlast).stats()).tasks.done;
    await kit().database.pool.query(
      `update outlast_task set keep_until = now() - interval '1 second' where queue = $1`,
      [queue],
    );
    // A resurrector prunes on its first pass.
    await (await startResurrector(kit().outlast)).stop();
    await until(
      async () =>
        (await kit().database.pool.query('select 1 from outlast_task where queue = $1', [queue]))
          .rowCount === 0,
    );
    expect((await createAdmin(kit().outlast).stats()).tasks.done).toBe(before);
  });
});

describe('the worker', () => {
  it('aborts a run whose task is cancelled', async () => {
    const { name, queue } = kit().names();
    const long = task(name, { queue });
    const started = gate();
    const aborted = gate();
    const handler = kit().outlast.handler(long, async (_, ctx) => {
      started.open();
      await new Promise<void>(resolve => ctx.signal.addEventListener('abort', () => resolve()));
      aborted.open();
    });
    await kit().withWorker([handler], async () => {
      const sent = await kit().outlast.push(long);
      await started.opened;
      await sent.cancel();
      await aborted.opened;
      await expect(sent.result()).rejects.toMatchObject({ code: 'ERR_TASK_CANCELLED' });
    });
  });

  it('runs higher priorities first', async () => {
    const { name, queue } = kit().names();
    const ranked = task(name, { queue, input: unchecked<{ n: number }>() });
    const seen: number[] = [];
    for (const priority of [0, 9, 5])
      await kit().outlast.push(ranked, { n: priority }, { priority });
    await kit().withWorker(
      [kit().outlast.handler(ranked, input => void seen.push(input.n))],
      () => until(async () => seen.length === 3),
      { concurrency: 1 },
    );
    expect(seen).toEqual([9, 5, 0]);
  });

  it('finishes what it can on a drain, and releases the rest uncounted to another worker', async () => {
    const { name, queue } = kit().names();
    const long = task(name, {
      queue,
      input: unchecked<{ heeds: boolean }>(),
      result: unchecked<unknown>(),
    });
    let begun = 0;
    const handler = kit().outlast.handler(long, async (input, ctx) => {
      begun += 1;
      if (begun > 2)
        return { attempt: ctx.attempt, resurrections: ctx.resurrections, epoch: ctx.epoch };
      if (input.heeds)
        await new Promise<void>(resolve =>
          ctx.softSignal.addEventListener('abort', () => resolve()),
        );
      else
        await new Promise<void>((_resolve, reject) =>
          ctx.signal.addEventListener('abort', () => reject(new Error('aborted'))),
        );
      return 'in time';
    });
    const [heeding, ignoring] = [
      await kit().outlast.push(long, { heeds: true }),
      await kit().outlast.push(long, { heeds: false }),
    ];
    await kit().withWorker([handler], () => until(async () => begun === 2), {
      shutdownTimeout: '100ms',
    });
    expect(await heeding.result()).toBe('in time');
    expect(await ignoring.state()).toBe('waiting');
    await kit().withWorker([handler], async () => {
      expect(await ignoring.result()).toEqual({ attempt: 1, resurrections: 0, epoch: 2 });
    });
  });

  it('drops all runs and opens a new incarnation when the store has closed the old one', async () => {
    const { name, queue } = kit().names();
    const long = task(name, { queue, result: z.number() });
    const started = gate();
    const aborted = gate();
    const handler = kit().outlast.handler(long, async (_, ctx) => {
      if (ctx.resurrections > 0) return ctx.epoch;
      started.open();
      await new Promise<void>(resolve => ctx.signal.addEventListener('abort', () => resolve()));
      aborted.open();
      return -1;
    });
    await kit().withWorker(
      [handler],
      async () => {
        const sent = await kit().outlast.push(long);
        await started.opened;
        await kit().database.pool.query(
          `update outlast_worker w set deadline = now() - interval '1 hour', lease_ms = 0 from outlast_task t where t.owner = w.id and t.id = $1`,
          [sent.id],
        );
        await aborted.opened;
        expect(await sent.result()).toBe(2);
      },
      { lease: '3s', beat: '1s' },
    );
  });

  it('is not declared dead while a handler blocks the event loop for longer than its lease', async () => {
    const { name, queue } = kit().names();
    const busy = task(name, { queue, result: unchecked<unknown>() });
    const handler = kit().outlast.handler(busy, (_, ctx) => {
      const endsAt = performance.now() + 2_000;
      while (performance.now() < endsAt);
      return { epoch: ctx.epoch, resurrections: ctx.resurrections };
    });
    await kit().withWorker(
      [handler],
      async () =>
        expect(await (await kit().outlast.push(busy)).result()).toEqual({
          epoch: 1,
          resurrections: 0,
        }),
      { lease: '1s', beat: '200ms' },
    );
  });
});
