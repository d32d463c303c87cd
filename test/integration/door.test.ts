import { describe, expect, it } from 'vitest';
import { z } from 'zod';
import { createAdmin } from '../../dist/admin/index.js';
import { task, unchecked } from '../../dist/index.js';
import { gate, until } from '../support/database.ts';
import { useWorkerKit } from '../support/worker-kit.ts';

const kit = useWorkerKit();

describe('the effect-once door', () => {
  it('returns the stored value to a later run and does not run the effect again', async () => {
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

  it('has one step per name, and refuses a name used twice in a run', async () => {
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

  it('refuses calls that would wait for their own transaction, and accepts them when it is closed', async () => {
    const { name, queue } = kit().names();
    const child = task(`${name}.child`, { queue });
    const nested = task(name, { queue, result: unchecked<unknown>() });
    const handler = kit().outlast.handler(nested, {
      checkpoint: unchecked<number>(),
      run: async (_, ctx) => {
        const attempts = {
          transaction: () => ctx.transaction(async () => 1, { step: 'inner' }),
          send: () => ctx.send(child, undefined),
          checkpoint: () => ctx.checkpoint(1),
        };
        const codes = await ctx.transaction(async () => {
          const tries = Object.values(attempts).map(attempt =>
            attempt().catch((error: { code: string; step: string }) => [error.code, error.step]),
          );
          return await Promise.all(tries);
        });
        for (const attempt of Object.values(attempts)) await attempt();
        return codes;
      },
    });
    const handlers = [handler, kit().outlast.handler(child, () => undefined)];
    await kit().withWorker(handlers, async () => {
      const refused = ['ERR_STEP_NESTED', 'main'];
      const answer = await (await kit().outlast.push(nested)).result();
      expect(answer).toEqual([refused, refused, refused]);
    });
  });

  it('lets a checkpoint of onSoftTimeout wait until the transaction is closed', async () => {
    const { name, queue } = kit().names();
    const slow = task(name, { queue, softTimeout: '30ms', result: unchecked<unknown>() });
    const inside = gate();
    const asked = gate();
    const saved = gate();
    const order: string[] = [];
    const handler = kit().outlast.handler(slow, {
      checkpoint: unchecked<string>(),
      onSoftTimeout: async ctx => {
        await inside.opened;
        const saving = ctx.checkpoint('before the step');
        asked.open();
        await saving;
        order.push('saved');
        saved.open();
      },
      run: async (_, ctx) => {
        if (ctx.lastCheckpoint !== undefined) return ctx.lastCheckpoint;
        await ctx.transaction(async tx => {
          inside.open();
          await asked.opened;
          // Nothing of this run waits for the lock that this transaction holds.
          const waiting = await tx.query(
            `select 1 from pg_stat_activity where pg_backend_pid() = any(pg_blocking_pids(pid))`,
          );
          order.push(`${waiting.rows.length} blocked`);
          order.push('effect');
        });
        await saved.opened;
        throw new Error('for the next run');
      },
      retry: { backoff: '1ms' },
    });
    await kit().withWorker([handler], async () => {
      expect(await (await kit().outlast.push(slow)).result()).toBe('before the step');
      expect(order).toEqual(['0 blocked', 'effect', 'saved']);
    });
  });

  it('runs parallel calls of one run one after the other, however long one takes', async () => {
    const { name, queue } = kit().names();
    const child = task(`${name}.child`, { queue });
    const parallel = task(name, { queue, result: unchecked<unknown>() });
    const inside = gate();
    const handler = kit().outlast.handler(parallel, {
      checkpoint: unchecked<string>(),
      run: async (_, ctx) => {
        const insert = (step: string, seconds: number) =>
          ctx.transaction(
            async tx => {
              inside.open();
              // Longer than our statements wait for the fence, and for any other lock.
              await tx.query('select pg_sleep($1::text::float8)', [`${seconds}`]);
              await tx.query('insert into effect values ($1, $2)', [ctx.id, step]);
            },
            { step },
          );
        const long = insert('long', 11);
        // It holds the fence from here on.
        await inside.opened;
        const calls = [insert('short', 0), ctx.send(child, undefined), ctx.checkpoint('beside')];
        await Promise.all([long, ...calls]);
        return { epoch: ctx.epoch, attempt: ctx.attempt };
      },
    });
    const handlers = [handler, kit().outlast.handler(child, () => undefined)];
    await kit().withWorker(handlers, async () => {
      const sent = await kit().outlast.push(parallel);
      expect(await sent.result({ timeout: '60s' })).toEqual({ epoch: 1, attempt: 1 });
      expect(await kit().effectsOf(sent.id)).toEqual(['long', 'short']);
    });
  });

  it('sends follow-ups with the effect, once, and only for the run that owns the task', async () => {
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

  it('sends what the last run asked for, not what an earlier run asked for', async () => {
    const { name, queue } = kit().names();
    const child = task(`${name}.child`, { queue, input: unchecked<string>() });
    const parent = task(name, { queue });
    const seen: string[] = [];
    const handlers = [
      kit().outlast.handler(child, what => void seen.push(what)),
      kit().outlast.handler(parent, {
        retry: { backoff: '10ms' },
        run: async (_, ctx) => {
          await ctx.send(child, ctx.attempt === 1 ? 'a' : 'b');
          if (ctx.attempt === 1) throw new Error('another way');
        },
      }),
    ];
    await kit().withWorker(handlers, async () => {
      await (await kit().outlast.push(parent)).result();
      await until(async () => seen.length === 2);
      expect(seen.toSorted((a, b) => a.localeCompare(b))).toEqual(['a', 'b']);
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

describe('an effect that fails', () => {
  it('is a failed attempt, also when a lock was not granted', async () => {
    const { name, queue } = kit().names();
    await kit().database.pool.query(`insert into effect values ('locked', $1)`, [name]);
    const holder = await kit().database.pool.connect();
    await holder.query('begin');
    await holder.query(`select 1 from effect where what = $1 for update`, [name]);
    const busy = task(name, { queue });
    const handler = kit().outlast.handler(busy, {
      retry: { maxAttempts: 2, backoff: '10ms' },
      run: (_, ctx) =>
        ctx.transaction(async tx => {
          await tx.query(`select 1 from effect where what = $1 for update nowait`, [name]);
        }),
    });
    await kit().withWorker([handler], async () => {
      const sent = await kit().outlast.push(busy);
      await expect(sent.result()).rejects.toMatchObject({ code: 'ERR_TASK_FAILED' });
      const { history } = await kit().deadLetter(sent.id);
      expect(history.filter(entry => entry.step === 'begun')).toHaveLength(2);
    });
    await holder.query('rollback');
    holder.release();
  });

  it('waits for locks as long as the user has configured', async () => {
    const { name, queue } = kit().names();
    const show = task(name, { queue, result: unchecked<unknown>() });
    const handler = kit().outlast.handler(show, (_, ctx) =>
      ctx.transaction(async tx => (await tx.query('show lock_timeout')).rows as unknown),
    );
    await kit().withWorker([handler], async () => {
      expect(await (await kit().outlast.push(show)).result()).toEqual([{ lock_timeout: '0' }]);
    });
  });

  it('does not delay other runs while the transaction of one run stays open', async () => {
    const { name, queue } = kit().names();
    const hung = task(`${name}.hung`, { queue, timeout: '200ms' });
    const quick = task(name, { queue, input: unchecked<number>(), result: unchecked<number>() });
    const inside = gate();
    const handlers = [
      kit().outlast.handler(hung, (_, ctx) =>
        ctx.transaction(async tx => {
          inside.open();
          await tx.query('select pg_advisory_xact_lock(7)');
        }),
      ),
      kit().outlast.handler(quick, {
        retry: { backoff: '10ms' },
        run: (n, ctx) => {
          if (ctx.attempt === 1) throw new Error('once');
          return n;
        },
      }),
    ];
    const holder = await kit().database.pool.connect();
    await holder.query('select pg_advisory_lock(7)');
    await kit().withWorker(handlers, async () => {
      const slow = await kit().outlast.push(hung);
      await inside.opened;
      const sent = await Promise.all([1, 2, 3].map(n => kit().outlast.push(quick, n)));
      expect(await Promise.all(sent.map(handle => handle.result()))).toEqual([1, 2, 3]);
      expect(await slow.state()).toBe('running');
      await holder.query('select pg_advisory_unlock(7)');
    });
    holder.release();
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

  it('stores checkpoints that were not awaited in the order of their calls', async () => {
    const { name, queue } = kit().names();
    const pages = task(name, { queue, result: unchecked<unknown>() });
    const handler = kit().outlast.handler(pages, {
      retry: { backoff: '10ms' },
      checkpoint: z.object({ page: z.number(), text: z.string() }),
      run: async (_, ctx) => {
        if (ctx.lastCheckpoint) return { ...ctx.lastCheckpoint, attempt: ctx.attempt };
        // A large checkpoint takes longer than those after it.
        const text = (page: number): string => 'x'.repeat(page % 5 === 0 ? 300_000 : 1);
        await Promise.all(
          Array.from({ length: 20 }, (_none, page) => ctx.checkpoint({ page, text: text(page) })),
        );
        throw new Error('on page 20');
      },
    });
    await kit().withWorker([handler], async () => {
      const answer = await (await kit().outlast.push(pages)).result();
      expect(answer).toEqual({ page: 19, text: 'x', attempt: 2 });
    });
  });

  it('accepts a checkpoint of `maxCheckpointBytes` and refuses one byte more', async () => {
    const { name, queue } = kit().names();
    const large = task(name, { queue, result: unchecked<unknown>() });
    const limit = 300_000;
    const handler = kit().outlast.handler(large, {
      checkpoint: unchecked<string>(),
      run: async (_, ctx) => {
        await ctx.checkpoint('x'.repeat(limit - 2));
        return await ctx
          .checkpoint('x'.repeat(limit - 1))
          .catch((error: { code: string; bytes: number }) => [error.code, error.bytes]);
      },
    });
    const options = { maxCheckpointBytes: limit };
    await kit().withWorker(
      [handler],
      async () => {
        const answer = await (await kit().outlast.push(large)).result();
        expect(answer).toEqual(['ERR_CHECKPOINT_TOO_LARGE', limit + 1]);
      },
      options,
    );
  });

  it('refuses a checkpoint that does not match its schema', async () => {
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

  it('sends linked tasks with the result as their input, under an id derived from the parent', async () => {
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
