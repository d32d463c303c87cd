import { describe, expect, it } from 'vitest';
import { z } from 'zod';
import { createAdmin } from '../../dist/admin/index.js';
import { task, unchecked } from '../../dist/index.js';
import { gate, until } from '../support/database.ts';
import { useWorkerKit } from '../support/worker-kit.ts';

const kit = useWorkerKit();

describe('the effect-once door', () => {
  it('hands the stored value to a later run and does not run the effect again', async () => {
    const { name, queue } = kit().names();
    const pay = task(name, { queue, result: unchecked<unknown>() });
    const values: unknown[] = [];
    const handler = kit().outlast.handler(pay, {
      retry: { backoff: '10ms' },
      run: async (_, ctx) => {
        const value = await ctx.transaction(async tx => {
          await tx.query('insert into effect values ($1, $2)', [ctx.id, 'paid']);
          return { attempt: ctx.attempt, big: 2n ** 60n };
        });
        values.push(value);
        if (ctx.attempt === 1) throw new Error('after the effect, before the end');
        return value;
      },
    });
    await kit().withWorker([handler], async () => {
      const sent = await kit().outlast.push(pay);
      expect(await sent.result()).toEqual({ attempt: 1, big: 2n ** 60n });
      expect(await kit().effectsOf(sent.id)).toEqual(['paid']);
      expect(values).toHaveLength(2);
    });
  });

  it('rolls the step back with an effect that throws, and runs it again', async () => {
    const { name, queue } = kit().names();
    const pay = task(name, { queue });
    const handler = kit().outlast.handler(pay, {
      retry: { backoff: '10ms' },
      run: async (_, ctx) => {
        await ctx.transaction(async tx => {
          await tx.query('insert into effect values ($1, $2)', [ctx.id, `attempt ${ctx.attempt}`]);
          if (ctx.attempt === 1) throw new Error('inside the effect');
        });
      },
    });
    await kit().withWorker([handler], async () => {
      const sent = await kit().outlast.push(pay);
      await sent.result();
      expect(await kit().effectsOf(sent.id)).toEqual(['attempt 2']);
    });
  });

  it('has a door for each named step, and refuses a name used twice in a run', async () => {
    const { name, queue } = kit().names();
    const steps = task(name, { queue });
    const handler = kit().outlast.handler(steps, {
      retry: { maxAttempts: 1 },
      run: async (_, ctx) => {
        for (const step of ['one', 'two', 'one']) {
          await ctx.transaction(
            async tx => void (await tx.query('insert into effect values ($1, $2)', [ctx.id, step])),
            { step },
          );
        }
      },
    });
    await kit().withWorker([handler], async () => {
      const sent = await kit().outlast.push(steps);
      await expect(sent.result()).rejects.toMatchObject({
        message: expect.stringContaining('the step one was used before') as string,
      });
      expect(await kit().effectsOf(sent.id)).toEqual(['one', 'two']);
    });
  });

  it('sends follow-ups with the effect, once, and only for the rightful run', async () => {
    const { name, queue } = kit().names();
    const child = task(`${name}.child`, { queue, input: unchecked<{ parent: string }>() });
    const parent = task(name, { queue });
    const seen: string[] = [];
    const handlers = [
      kit().outlast.handler(child, input => void seen.push(input.parent)),
      kit().outlast.handler(parent, {
        retry: { backoff: '10ms' },
        run: async (_, ctx) => {
          await ctx.transaction(
            async tx => void (await kit().outlast.send(tx, child, { parent: 'door' })),
          );
          await ctx.send(child, { parent: 'ctx.send' });
          if (ctx.attempt === 1) throw new Error('again');
        },
      }),
    ];
    await kit().withWorker(handlers, async () => {
      await (await kit().outlast.push(parent)).result();
      await until(async () => seen.length >= 2);
      await until(async () =>
        (await createAdmin(kit().outlast).stats()).queues.every(
          row => row.queue !== queue || row.waiting + row.running === 0,
        ),
      );
      expect(seen.toSorted()).toEqual(['ctx.send', 'door']);
    });
  });

  it('is shut for a run whose task was taken away', async () => {
    const { name, queue } = kit().names();
    const taken = task(name, { queue });
    const inside = gate();
    const goOn = gate();
    const outcome = gate<unknown>();
    const handler = kit().outlast.handler(taken, async (_, ctx) => {
      inside.open();
      await goOn.opened;
      await ctx
        .transaction(
          async tx =>
            void (await tx.query('insert into effect values ($1, $2)', [ctx.id, 'stale'])),
        )
        .then(
          () => outcome.open('done'),
          (error: unknown) => outcome.open(error),
        );
    });
    await kit().withWorker([handler], async () => {
      const sent = await kit().outlast.push(taken);
      await inside.opened;
      await sent.cancel();
      goOn.open();
      expect(await outcome.opened).toMatchObject({ code: 'ERR_FENCE_STALE' });
      expect(await kit().effectsOf(sent.id)).toEqual([]);
    });
  });
});

describe('progress and follow-ups', () => {
  it('gives the last checkpoint to the next run', async () => {
    const { name, queue } = kit().names();
    const pages = task(name, { queue, result: unchecked<unknown>() });
    const handler = kit().outlast.handler(pages, {
      retry: { backoff: '10ms' },
      checkpoint: z.object({ page: z.number() }),
      run: async (_, ctx) => {
        if (ctx.lastCheckpoint) return ctx.lastCheckpoint;
        await ctx.checkpoint({ page: 1 });
        await ctx.checkpoint({ page: 2 });
        throw new Error('on page 3');
      },
    });
    await kit().withWorker([handler], async () => {
      expect(await (await kit().outlast.push(pages)).result()).toEqual({ page: 2 });
    });
  });

  it('refuses a checkpoint that its schema does not take', async () => {
    const { name, queue } = kit().names();
    const pages = task(name, { queue });
    const handler = kit().outlast.handler(pages, {
      retry: { maxAttempts: 1 },
      checkpoint: z.object({ page: z.number() }),
      run: (_, ctx) => ctx.checkpoint({ page: 'x' as unknown as number }),
    });
    await kit().withWorker([handler], async () => {
      await expect((await kit().outlast.push(pages)).result()).rejects.toMatchObject({
        message: expect.stringContaining('checkpoint of') as string,
      });
    });
  });

  it('sends what is linked with the result as its input, under an id that derives from the parent', async () => {
    const { name, queue } = kit().names();
    const next = task(`${name}.next`, {
      queue,
      input: unchecked<{ mailId: string }>(),
      result: z.string(),
    });
    const first = task(name, { queue, result: unchecked<{ mailId: string }>() });
    const got = gate<string>();
    const handlers = [
      kit().outlast.handler(first, () => ({ mailId: 'm-1' })),
      kit().outlast.handler(next, (input, ctx) => (got.open(ctx.id), input.mailId)),
    ];
    await kit().withWorker(handlers, async () => {
      await kit().outlast.transaction(tx =>
        kit().outlast.send(tx, first, undefined, { link: next }),
      );
      expect(
        await kit()
          .outlast.find(next, await got.opened)
          .result(),
      ).toBe('m-1');
    });
  });
});
