import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { z } from 'zod';
import type { PoolClient } from 'pg';
import {
  bury,
  createOutlast,
  currentTask,
  discard,
  retryIn,
  startRelay,
  startResurrector,
  startWorker,
  task,
  unchecked,
  type Handler,
  type Outlast,
  type Service,
} from '../../dist/index.js';
import { createAdmin } from '../../dist/admin/index.js';
import { fromPg } from '../../dist/adapters/transactions/pg.js';
import { gate, migratedDatabase, until, type MigratedDatabase } from '../support/database.ts';

let database: MigratedDatabase;
let outlast: Outlast<PoolClient>;
let relay: Service;
let recovery: Service;

beforeAll(async () => {
  database = await migratedDatabase('worker');
  await database.pool.query('create table effect (task_id text not null, what text not null)');
  outlast = createOutlast({ database: database.url, adapter: fromPg(database.pool) });
  relay = await startRelay(outlast);
  recovery = await startResurrector(outlast);
});

afterAll(async () => {
  await relay.stop();
  await recovery.stop();
  await outlast.close();
  await database.dispose();
});

let count = 0;
/** A name and a queue that no other test uses: workers take only what is theirs. */
const names = (): { name: string; queue: string } => {
  count += 1;
  return { name: `worker.task-${count}`, queue: `q${count}` };
};

type WorkerOptions = Partial<Omit<Parameters<typeof startWorker>[1], 'tasks' | 'queues'>>;

async function withWorker<T>(
  handlers: readonly Handler[],
  fn: (worker: Service) => Promise<T>,
  options: WorkerOptions = {},
): Promise<T> {
  const queues = [...new Set(handlers.map(handler => handler.task.contract.queue))];
  const worker = await startWorker(outlast, { tasks: handlers, queues, ...options });
  try {
    return await fn(worker);
  } finally {
    await worker.stop();
  }
}

const effectsOf = async (id: string): Promise<string[]> =>
  (
    await database.pool.query<{ what: string }>(
      'select what from effect where task_id = $1 order by what',
      [id],
    )
  ).rows.map(row => row.what);

const deadLetter = async (id: string) =>
  await until(() => createAdmin(outlast).deadLetters.show(id));

describe('a handler', () => {
  it('gets what was sent, to the byte, and its result comes back', async () => {
    const { name, queue } = names();
    const echo = task(name, {
      input: unchecked<Record<string, unknown>>(),
      result: unchecked<Record<string, unknown>>(),
      queue,
    });
    const input = {
      nul: 'a\u0000b',
      lone: '\ud800',
      big: 2n ** 70n,
      emoji: '🦉',
      nested: [{ deep: null }],
      __proto__x: 1,
    };
    await withWorker([outlast.handler(echo, received => received)], async () => {
      const sent = await outlast.transaction(tx => outlast.send(tx, echo, input));
      expect(await sent.result()).toEqual(input);
      expect(await sent.state()).toBe('done');
    });
  });

  it('gets the output of its schema: defaults and transforms happen in the worker', async () => {
    const { name, queue } = names();
    const parse = task(name, {
      input: z.object({ n: z.string().transform(Number), unit: z.string().default('kg') }),
      result: z.object({ n: z.number(), unit: z.string() }),
      queue,
    });
    await withWorker([outlast.handler(parse, input => input)], async () => {
      const sent = await outlast.transaction(tx => outlast.send(tx, parse, { n: '42' }));
      expect(await sent.result()).toEqual({ n: 42, unit: 'kg' });
    });
  });

  it('knows its context, and finds it anywhere', async () => {
    const { name, queue } = names();
    const look = task(name, { queue, result: unchecked<unknown>() });
    const handler = outlast.handler(look, (_, ctx) => {
      const { id, attempt, resurrections, epoch, fence, headers, queue: from } = ctx;
      return {
        id,
        attempt,
        resurrections,
        epoch,
        fence,
        headers,
        from,
        isCurrent: currentTask()?.id === id,
      };
    });
    await withWorker([handler], async () => {
      const sent = await outlast.transaction(tx =>
        outlast.send(tx, look, undefined, { headers: { region: 'eu' } }),
      );
      expect(await sent.result()).toEqual({
        id: sent.id,
        attempt: 1,
        resurrections: 0,
        epoch: 1,
        fence: 1,
        headers: { region: 'eu' },
        from: queue,
        isCurrent: true,
      });
    });
    expect(currentTask()).toBeUndefined();
  });

  it('keeps no value where the contract declares no result', async () => {
    const { name, queue } = names();
    const silent = task(name, { queue });
    await withWorker([outlast.handler(silent, () => undefined)], async () => {
      expect(await (await outlast.push(silent)).result()).toBeUndefined();
    });
  });
});

describe('a failed attempt', () => {
  it('is repeated with backoff until it succeeds', async () => {
    const { name, queue } = names();
    const flaky = task(name, { queue, result: z.number() });
    const handler = outlast.handler(flaky, {
      retry: { backoff: '10ms', jitter: 'none' },
      run: (_, ctx) => {
        if (ctx.attempt < 3) throw new Error(`attempt ${ctx.attempt}`);
        return ctx.attempt;
      },
    });
    await withWorker([handler], async () => {
      expect(await (await outlast.push(flaky)).result()).toBe(3);
    });
  });

  it('ends as a dead letter with bytes, reason and history when attempts are spent', async () => {
    const { name, queue } = names();
    const hopeless = task(name, { queue, input: unchecked<{ n: number }>() });
    const handler = outlast.handler(hopeless, {
      retry: { maxAttempts: 2, backoff: '10ms' },
      run: () => {
        throw new RangeError('too\u0000far');
      },
    });
    await withWorker([handler], async () => {
      const sent = await outlast.push(hopeless, { n: 7 });
      await expect(sent.result()).rejects.toMatchObject({
        code: 'ERR_TASK_FAILED',
        type: 'RangeError',
        message: expect.stringContaining('too\u0000far') as string,
      });
      const letter = await deadLetter(sent.id);
      expect(letter).toMatchObject({ where: 'worker', reason: 'ERR_ATTEMPTS_SPENT', name });
      expect(Buffer.from(letter.body).toString()).toContain('"n":7');
      expect(letter.history.map(entry => entry.step)).toEqual([
        'arrived',
        'begun',
        'failed',
        'begun',
        'dead',
      ]);
      expect(letter.history.at(-1)?.error).toMatchObject({ type: 'RangeError' });
    });
  });

  it('is not repeated when retryIf says so', async () => {
    const { name, queue } = names();
    const declined = task(name, { queue });
    const handler = outlast.handler(declined, {
      retry: { retryIf: error => !(error instanceof TypeError) },
      run: () => {
        throw new TypeError('card declined');
      },
    });
    await withWorker([handler], async () => {
      const sent = await outlast.push(declined);
      await expect(sent.result()).rejects.toMatchObject({ code: 'ERR_TASK_FAILED' });
      expect(
        (await deadLetter(sent.id)).history.filter(entry => entry.step === 'begun'),
      ).toHaveLength(1);
    });
  });
});

describe('verdicts', () => {
  it('discard: done without a result and without a dead letter', async () => {
    const { name, queue } = names();
    const skip = task(name, { queue, result: z.string() });
    await withWorker([outlast.handler(skip, () => discard('nothing to do'))], async () => {
      const sent = await outlast.push(skip);
      await expect(sent.result()).rejects.toMatchObject({
        code: 'ERR_TASK_DISCARDED',
        message: expect.stringContaining('nothing to do') as string,
      });
      expect(await createAdmin(outlast).deadLetters.show(sent.id)).toBeNull();
    });
  });

  it('bury: a dead letter at once', async () => {
    const { name, queue } = names();
    const bad = task(name, { queue });
    await withWorker([outlast.handler(bad, () => bury('negative amount'))], async () => {
      const sent = await outlast.push(bad);
      await expect(sent.result()).rejects.toMatchObject({ code: 'ERR_TASK_FAILED' });
      expect((await deadLetter(sent.id)).error).toBe('negative amount');
    });
  });

  it('retryIn: another run later, and it spends an attempt', async () => {
    const { name, queue } = names();
    const busy = task(name, { queue, result: z.number() });
    await withWorker(
      [
        outlast.handler(busy, (_, ctx) =>
          ctx.attempt === 1 ? retryIn('10ms', 'busy') : ctx.attempt,
        ),
      ],
      async () => {
        expect(await (await outlast.push(busy)).result()).toBe(2);
      },
    );
  });
});

describe('time', () => {
  it('aborts an attempt at its timeout and counts it as failed', async () => {
    const { name, queue } = names();
    const slow = task(name, { queue, timeout: '50ms' });
    const aborted = gate<unknown>();
    const handler = outlast.handler(slow, {
      retry: { maxAttempts: 1 },
      run: (_, ctx) =>
        new Promise<void>(() =>
          ctx.signal.addEventListener('abort', () => aborted.open(ctx.signal.reason)),
        ),
    });
    await withWorker([handler], async () => {
      const sent = await outlast.push(slow);
      expect(await aborted.opened).toMatchObject({ code: 'ERR_TIMEOUT' });
      await expect(sent.result()).rejects.toMatchObject({ code: 'ERR_TASK_FAILED' });
      expect((await deadLetter(sent.id)).reason).toBe('ERR_TIMEOUT');
    });
  });

  it('tells a slow run softly first, and the run goes on', async () => {
    const { name, queue } = names();
    const slow = task(name, { queue, softTimeout: '30ms', timeout: '20s', result: z.string() });
    const told = gate<string>();
    const handler = outlast.handler(slow, {
      onSoftTimeout: ctx => told.open(ctx.id),
      run: async (_, ctx) => {
        await new Promise<void>(resolve =>
          ctx.softSignal.addEventListener('abort', () => resolve()),
        );
        return 'came to an end';
      },
    });
    await withWorker([handler], async () => {
      const sent = await outlast.push(slow);
      expect(await sent.result()).toBe('came to an end');
      expect(await told.opened).toBe(sent.id);
    });
  });

  it('keeps a task with a countdown in the database until it is due', async () => {
    const { name, queue } = names();
    const later = task(name, { queue });
    await withWorker([outlast.handler(later, () => undefined)], async () => {
      const soon = await outlast.transaction(tx =>
        outlast.send(tx, later, undefined, { countdown: '1h' }),
      );
      const now = await outlast.transaction(tx => outlast.send(tx, later));
      await now.result();
      expect(await soon.state()).toBe('pending');
      await database.pool.query(
        `update outlast_outbox set available_at = now() where task_id = $1`,
        [soon.id],
      );
      await soon.result();
    });
  });

  it('never begins what has expired', async () => {
    const { name, queue } = names();
    const stale = task(name, { queue, expires: '1ms' });
    let runs = 0;
    const handler = outlast.handler(stale, () => void (runs += 1));
    const sent = await outlast.transaction(tx => outlast.send(tx, stale));
    await until(
      async () =>
        (
          await database.pool.query(
            'select 1 from outlast_task where id = $1 and expires_at < now()',
            [sent.id],
          )
        ).rowCount === 1,
    );
    await withWorker([handler], async () => {
      await expect(sent.result()).rejects.toMatchObject({ code: 'ERR_TASK_EXPIRED' });
    });
    expect(runs).toBe(0);
  });

  it('aborts a run at its deadline and does not try again', async () => {
    const { name, queue } = names();
    const urgent = task(name, { queue });
    const handler = outlast.handler(
      urgent,
      (_, ctx) =>
        new Promise<void>((_resolve, reject) =>
          ctx.signal.addEventListener('abort', () => reject(ctx.signal.reason as Error)),
        ),
    );
    await withWorker([handler], async () => {
      const sent = await outlast.transaction(tx =>
        outlast.send(tx, urgent, undefined, { deadline: '200ms' }),
      );
      await expect(sent.result()).rejects.toMatchObject({ code: 'ERR_TASK_FAILED' });
      expect(
        (await deadLetter(sent.id)).history.filter(entry => entry.step === 'begun'),
      ).toHaveLength(1);
    });
  });
});

describe('the effect-once door', () => {
  it('hands the stored value to a later run and does not run the effect again', async () => {
    const { name, queue } = names();
    const pay = task(name, { queue, result: unchecked<unknown>() });
    const values: unknown[] = [];
    const handler = outlast.handler(pay, {
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
    await withWorker([handler], async () => {
      const sent = await outlast.push(pay);
      expect(await sent.result()).toEqual({ attempt: 1, big: 2n ** 60n });
      expect(await effectsOf(sent.id)).toEqual(['paid']);
      expect(values).toHaveLength(2);
    });
  });

  it('rolls the step back with an effect that throws, and runs it again', async () => {
    const { name, queue } = names();
    const pay = task(name, { queue });
    const handler = outlast.handler(pay, {
      retry: { backoff: '10ms' },
      run: async (_, ctx) => {
        await ctx.transaction(async tx => {
          await tx.query('insert into effect values ($1, $2)', [ctx.id, `attempt ${ctx.attempt}`]);
          if (ctx.attempt === 1) throw new Error('inside the effect');
        });
      },
    });
    await withWorker([handler], async () => {
      const sent = await outlast.push(pay);
      await sent.result();
      expect(await effectsOf(sent.id)).toEqual(['attempt 2']);
    });
  });

  it('has a door for each named step, and refuses a name used twice in a run', async () => {
    const { name, queue } = names();
    const steps = task(name, { queue });
    const handler = outlast.handler(steps, {
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
    await withWorker([handler], async () => {
      const sent = await outlast.push(steps);
      await expect(sent.result()).rejects.toMatchObject({
        message: expect.stringContaining('the step one was used before') as string,
      });
      expect(await effectsOf(sent.id)).toEqual(['one', 'two']);
    });
  });

  it('sends follow-ups with the effect, once, and only for the rightful run', async () => {
    const { name, queue } = names();
    const child = task(`${name}.child`, { queue, input: unchecked<{ parent: string }>() });
    const parent = task(name, { queue });
    const seen: string[] = [];
    const handlers = [
      outlast.handler(child, input => void seen.push(input.parent)),
      outlast.handler(parent, {
        retry: { backoff: '10ms' },
        run: async (_, ctx) => {
          await ctx.transaction(
            async tx => void (await outlast.send(tx, child, { parent: 'door' })),
          );
          await ctx.send(child, { parent: 'ctx.send' });
          if (ctx.attempt === 1) throw new Error('again');
        },
      }),
    ];
    await withWorker(handlers, async () => {
      await (await outlast.push(parent)).result();
      await until(async () => seen.length >= 2);
      await until(async () =>
        (await createAdmin(outlast).stats()).queues.every(
          row => row.queue !== queue || row.waiting + row.running === 0,
        ),
      );
      expect(seen.toSorted()).toEqual(['ctx.send', 'door']);
    });
  });

  it('is shut for a run whose task was taken away', async () => {
    const { name, queue } = names();
    const taken = task(name, { queue });
    const inside = gate();
    const goOn = gate();
    const outcome = gate<unknown>();
    const handler = outlast.handler(taken, async (_, ctx) => {
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
    await withWorker([handler], async () => {
      const sent = await outlast.push(taken);
      await inside.opened;
      await sent.cancel();
      goOn.open();
      expect(await outcome.opened).toMatchObject({ code: 'ERR_FENCE_STALE' });
      expect(await effectsOf(sent.id)).toEqual([]);
    });
  });
});

describe('progress and follow-ups', () => {
  it('gives the last checkpoint to the next run', async () => {
    const { name, queue } = names();
    const pages = task(name, { queue, result: unchecked<unknown>() });
    const handler = outlast.handler(pages, {
      retry: { backoff: '10ms' },
      checkpoint: z.object({ page: z.number() }),
      run: async (_, ctx) => {
        if (ctx.lastCheckpoint) return ctx.lastCheckpoint;
        await ctx.checkpoint({ page: 1 });
        await ctx.checkpoint({ page: 2 });
        throw new Error('on page 3');
      },
    });
    await withWorker([handler], async () => {
      expect(await (await outlast.push(pages)).result()).toEqual({ page: 2 });
    });
  });

  it('refuses a checkpoint that its schema does not take', async () => {
    const { name, queue } = names();
    const pages = task(name, { queue });
    const handler = outlast.handler(pages, {
      retry: { maxAttempts: 1 },
      checkpoint: z.object({ page: z.number() }),
      run: (_, ctx) => ctx.checkpoint({ page: 'x' as unknown as number }),
    });
    await withWorker([handler], async () => {
      await expect((await outlast.push(pages)).result()).rejects.toMatchObject({
        message: expect.stringContaining('checkpoint of') as string,
      });
    });
  });

  it('sends what is linked with the result as its input, under an id that derives from the parent', async () => {
    const { name, queue } = names();
    const next = task(`${name}.next`, {
      queue,
      input: unchecked<{ mailId: string }>(),
      result: z.string(),
    });
    const first = task(name, { queue, result: unchecked<{ mailId: string }>() });
    const got = gate<string>();
    const handlers = [
      outlast.handler(first, () => ({ mailId: 'm-1' })),
      outlast.handler(next, (input, ctx) => (got.open(ctx.id), input.mailId)),
    ];
    await withWorker(handlers, async () => {
      await outlast.transaction(tx => outlast.send(tx, first, undefined, { link: next }));
      expect(await outlast.find(next, await got.opened).result()).toBe('m-1');
    });
  });
});

describe('what cannot run', () => {
  it('is a dead letter when no handler knows its name', async () => {
    const { name, queue } = names();
    const unknown = task(`${name}.unknown`, { queue });
    await withWorker([outlast.handler(task(name, { queue }), () => undefined)], async () => {
      const sent = await outlast.push(unknown);
      expect(await deadLetter(sent.id)).toMatchObject({ reason: 'ERR_TASK_UNKNOWN' });
    });
  });

  it('is a dead letter when its bytes are not those that were sent', async () => {
    const { name, queue } = names();
    const signed = task(name, { queue, input: unchecked<{ cents: number }>() });
    const sent = await outlast.push(signed, { cents: 1 });
    await database.pool.query(
      `update outlast_task set body = convert_to(replace(convert_from(body, 'UTF8'), '1', '9'), 'UTF8') where id = $1`,
      [sent.id],
    );
    await withWorker([outlast.handler(signed, () => undefined)], async () => {
      expect(await deadLetter(sent.id)).toMatchObject({ reason: 'ERR_DIGEST' });
    });
  });

  it('is a dead letter when its input is not what the handler asks for, and runs after a fix', async () => {
    const { name, queue } = names();
    const loose = task(name, {
      queue,
      input: unchecked<{ n: unknown }>(),
      result: unchecked<unknown>(),
    });
    const strict = task(name, {
      queue,
      input: z.object({ n: z.number() }),
      result: unchecked<unknown>(),
    });
    const sent = await outlast.push(loose, { n: 'seven' });
    await withWorker([outlast.handler(strict, input => input)], async () => {
      expect(await deadLetter(sent.id)).toMatchObject({ reason: 'ERR_INPUT_INVALID' });
    });
    await withWorker([outlast.handler(loose, input => input)], async () => {
      expect(await createAdmin(outlast).deadLetters.retry(sent.id)).toBe('ok');
      expect(await createAdmin(outlast).deadLetters.retry(sent.id, 1)).toBe('conflict');
      expect(await sent.result()).toEqual({ n: 'seven' });
    });
  });

  it('climbs from old versions of its input step by step', async () => {
    const { name, queue } = names();
    const v1 = task(name, {
      queue,
      input: unchecked<{ euros: number }>(),
      result: unchecked<unknown>(),
    });
    const v3 = task(name, {
      queue,
      version: 3,
      input: z.object({ cents: z.number(), tenant: z.string() }),
      result: unchecked<unknown>(),
    });
    const handler = outlast.handler(v3, {
      migrations: {
        1: (old: { euros: number }) => ({ cents: old.euros * 100 }),
        2: (old: { cents: number }) => ({ ...old, tenant: 'a' }),
      },
      run: input => input,
    });
    await withWorker([handler], async () => {
      expect(await (await outlast.push(v1, { euros: 5 })).result()).toEqual({
        cents: 500,
        tenant: 'a',
      });
    });
  });

  it('is refused at definition when a version cannot be reached', () => {
    const v3 = task(names().name, { version: 3 });
    expect(() =>
      outlast.handler(v3, { migrations: { 1: (old: unknown) => old }, run: () => undefined }),
    ).toThrow(expect.objectContaining({ code: 'ERR_VERSION_UNREACHABLE' }) as Error);
  });
});

describe('what was forgotten', () => {
  it('stays in the sums', async () => {
    const { name, queue } = names();
    const done = task(name, { queue });
    await withWorker([outlast.handler(done, () => undefined)], async () => {
      await (await outlast.push(done)).result();
    });
    const before = (await createAdmin(outlast).stats()).tasks.done;
    await database.pool.query(
      `update outlast_task set keep_until = now() - interval '1 second' where queue = $1`,
      [queue],
    );
    // A resurrector prunes with its first look.
    await (await startResurrector(outlast)).stop();
    await until(
      async () =>
        (await database.pool.query('select 1 from outlast_task where queue = $1', [queue]))
          .rowCount === 0,
    );
    expect((await createAdmin(outlast).stats()).tasks.done).toBe(before);
  });
});

describe('the worker', () => {
  it('aborts a run whose task is cancelled', async () => {
    const { name, queue } = names();
    const long = task(name, { queue });
    const started = gate();
    const aborted = gate();
    const handler = outlast.handler(long, async (_, ctx) => {
      started.open();
      await new Promise<void>(resolve => ctx.signal.addEventListener('abort', () => resolve()));
      aborted.open();
    });
    await withWorker([handler], async () => {
      const sent = await outlast.push(long);
      await started.opened;
      await sent.cancel();
      await aborted.opened;
      await expect(sent.result()).rejects.toMatchObject({ code: 'ERR_TASK_CANCELLED' });
    });
  });

  it('runs higher priorities first', async () => {
    const { name, queue } = names();
    const job = task(name, { queue, input: unchecked<{ n: number }>() });
    const seen: number[] = [];
    for (const priority of [0, 9, 5]) await outlast.push(job, { n: priority }, { priority });
    await withWorker(
      [outlast.handler(job, input => void seen.push(input.n))],
      () => until(async () => seen.length === 3),
      { concurrency: 1 },
    );
    expect(seen).toEqual([9, 5, 0]);
  });

  it('finishes what it can on a drain, releases the rest without counting it, and another worker finishes that', async () => {
    const { name, queue } = names();
    const long = task(name, {
      queue,
      input: unchecked<{ heeds: boolean }>(),
      result: unchecked<unknown>(),
    });
    let begun = 0;
    const handler = outlast.handler(long, async (input, ctx) => {
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
      await outlast.push(long, { heeds: true }),
      await outlast.push(long, { heeds: false }),
    ];
    await withWorker([handler], () => until(async () => begun === 2), { shutdownTimeout: '100ms' });
    expect(await heeding.result()).toBe('in time');
    expect(await ignoring.state()).toBe('waiting');
    await withWorker([handler], async () => {
      expect(await ignoring.result()).toEqual({ attempt: 1, resurrections: 0, epoch: 2 });
    });
  });

  it('lets go of everything and starts anew when the store has closed its incarnation', async () => {
    const { name, queue } = names();
    const long = task(name, { queue, result: z.number() });
    const started = gate();
    const aborted = gate();
    const handler = outlast.handler(long, async (_, ctx) => {
      if (ctx.resurrections > 0) return ctx.epoch;
      started.open();
      await new Promise<void>(resolve => ctx.signal.addEventListener('abort', () => resolve()));
      aborted.open();
      return -1;
    });
    await withWorker(
      [handler],
      async () => {
        const sent = await outlast.push(long);
        await started.opened;
        await database.pool.query(
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
    const { name, queue } = names();
    const busy = task(name, { queue, result: unchecked<unknown>() });
    const handler = outlast.handler(busy, (_, ctx) => {
      const endsAt = performance.now() + 2_000;
      while (performance.now() < endsAt);
      return { epoch: ctx.epoch, resurrections: ctx.resurrections };
    });
    await withWorker(
      [handler],
      async () =>
        expect(await (await outlast.push(busy)).result()).toEqual({ epoch: 1, resurrections: 0 }),
      { lease: '1s', beat: '200ms' },
    );
  });
});
