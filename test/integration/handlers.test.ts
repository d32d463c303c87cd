import { describe, expect, it } from 'vitest';
import { z } from 'zod';
import { createAdmin } from '../../dist/admin/index.js';
import {
  bury,
  currentTask,
  discard,
  retryIn,
  task,
  unchecked,
  type StandardSchema,
} from '../../dist/index.js';
import { gate, until } from '../support/database.ts';
import { useWorkerKit } from '../support/worker-kit.ts';

const kit = useWorkerKit();

describe('a handler', () => {
  it('gets the sent input byte for byte, and its result comes back', async () => {
    const { name, queue } = kit().names();
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
    await kit().withWorker([kit().outlast.handler(echo, received => received)], async () => {
      const sent = await kit().outlast.transaction(tx => kit().outlast.send(tx, echo, input));
      expect(await sent.result()).toEqual(input);
      expect(await sent.state()).toBe('done');
    });
  });

  it('gets the output of its schema: defaults and transforms happen in the worker', async () => {
    const { name, queue } = kit().names();
    const parse = task(name, {
      input: z.object({ n: z.string().transform(Number), unit: z.string().default('kg') }),
      result: z.object({ n: z.number(), unit: z.string() }),
      queue,
    });
    await kit().withWorker([kit().outlast.handler(parse, input => input)], async () => {
      const sent = await kit().outlast.transaction(tx =>
        kit().outlast.send(tx, parse, { n: '42' }),
      );
      expect(await sent.result()).toEqual({ n: 42, unit: 'kg' });
    });
  });

  it('gets its context as an argument, and currentTask() returns it', async () => {
    const { name, queue } = kit().names();
    const look = task(name, { queue, result: unchecked<unknown>() });
    const handler = kit().outlast.handler(look, (_, ctx) => {
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
    await kit().withWorker([handler], async () => {
      const sent = await kit().outlast.transaction(tx =>
        kit().outlast.send(tx, look, undefined, { headers: { region: 'eu' } }),
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

  it('has its result kept only on request, and checked against its schema on reading', async () => {
    const { name, queue } = kit().names();
    const loose = task(name, { queue, result: unchecked<unknown>() });
    const strict = task(name, { queue, result: z.object({ n: z.number() }) });
    await kit().withWorker([kit().outlast.handler(loose, () => ({ n: 'seven' }))], async () => {
      const gone = await kit().outlast.push(loose, undefined, { keepResult: false });
      await expect(gone.result()).rejects.toMatchObject({ code: 'ERR_RESULT_GONE' });
      const { id } = await kit().outlast.push(loose);
      const invalid = kit().outlast.find(strict, id).result();
      await expect(invalid).rejects.toMatchObject({
        code: 'ERR_RESULT_INVALID',
        issues: [{ path: 'n' }],
      });
    });
  });

  it('stores no value where the contract declares no result', async () => {
    const { name, queue } = kit().names();
    const silent = task(name, { queue });
    await kit().withWorker([kit().outlast.handler(silent, () => undefined)], async () => {
      expect(await (await kit().outlast.push(silent)).result()).toBeUndefined();
    });
  });
});

describe('a failed attempt', () => {
  it('is repeated with backoff until it succeeds', async () => {
    const { name, queue } = kit().names();
    const flaky = task(name, { queue, result: z.number() });
    const handler = kit().outlast.handler(flaky, {
      retry: { backoff: '10ms', jitter: 'none' },
      run: (_, ctx) => {
        if (ctx.attempt < 3) throw new Error(`attempt ${ctx.attempt}`);
        return ctx.attempt;
      },
    });
    await kit().withWorker([handler], async () => {
      expect(await (await kit().outlast.push(flaky)).result()).toBe(3);
    });
  });

  it('ends as a dead letter with bytes, reason and history when attempts are spent', async () => {
    const { name, queue } = kit().names();
    const failing = task(name, { queue, input: unchecked<{ n: number }>() });
    const handler = kit().outlast.handler(failing, {
      retry: { maxAttempts: 2, backoff: '10ms' },
      run: () => {
        throw new RangeError('too\u0000far');
      },
    });
    await kit().withWorker([handler], async () => {
      const sent = await kit().outlast.push(failing, { n: 7 });
      await expect(sent.result()).rejects.toMatchObject({
        code: 'ERR_TASK_FAILED',
        type: 'RangeError',
        message: expect.stringContaining('too\u0000far') as string,
      });
      const letter = await kit().deadLetter(sent.id);
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

  it('is not repeated when retryIf returns false', async () => {
    const { name, queue } = kit().names();
    const declined = task(name, { queue });
    const handler = kit().outlast.handler(declined, {
      retry: { retryIf: error => !(error instanceof TypeError) },
      run: () => {
        throw new TypeError('card declined');
      },
    });
    await kit().withWorker([handler], async () => {
      const sent = await kit().outlast.push(declined);
      await expect(sent.result()).rejects.toMatchObject({ code: 'ERR_TASK_FAILED' });
      expect(
        (await kit().deadLetter(sent.id)).history.filter(entry => entry.step === 'begun'),
      ).toHaveLength(1);
    });
  });
});

describe('a misbehaving handler', () => {
  it.each([
    [
      'throws an error whose message is not a string',
      () => Promise.reject(Object.assign(new Error('x'), { message: { code: 42 } })),
    ],
    ['throws undefined', () => Promise.reject(undefined as unknown as Error)],
    ['asks for a retry in ten thousand years', () => retryIn('9999999d')],
    ['returns a result that is too large', () => 'x'.repeat(17_000_000)],
    ['returns a value that JSON cannot represent', () => new Map() as unknown as string],
  ] as const)('that %s spends its attempts as usual', async (_, run) => {
    const { name, queue } = kit().names();
    const odd = task(name, { queue, result: unchecked<string>() });
    const handler = kit().outlast.handler(odd, { retry: { maxAttempts: 2, backoff: '10ms' }, run });
    await kit().withWorker([handler], async () => {
      const sent = await kit().outlast.push(odd);
      await expect(sent.result()).rejects.toMatchObject({ code: 'ERR_TASK_FAILED' });
      const { history } = await kit().deadLetter(sent.id);
      expect(history.filter(entry => entry.step === 'begun')).toHaveLength(2);
    });
  });
});

describe('verdicts', () => {
  it('discard: done without a result and without a dead letter', async () => {
    const { name, queue } = kit().names();
    const skip = task(name, { queue, result: z.string() });
    await kit().withWorker(
      [kit().outlast.handler(skip, () => discard('nothing to do'))],
      async () => {
        const sent = await kit().outlast.push(skip);
        await expect(sent.result()).rejects.toMatchObject({
          code: 'ERR_TASK_DISCARDED',
          message: expect.stringContaining('nothing to do') as string,
        });
        expect(await createAdmin(kit().outlast).deadLetters.show(sent.id)).toBeNull();
      },
    );
  });

  it('bury: a dead letter at once', async () => {
    const { name, queue } = kit().names();
    const bad = task(name, { queue });
    await kit().withWorker(
      [kit().outlast.handler(bad, () => bury('negative amount'))],
      async () => {
        const sent = await kit().outlast.push(bad);
        await expect(sent.result()).rejects.toMatchObject({ code: 'ERR_TASK_FAILED' });
        expect((await kit().deadLetter(sent.id)).error).toBe('negative amount');
      },
    );
  });

  it.each([
    ['discard', discard],
    ['bury', bury],
  ] as const)('%s: a reason is kept as a short text, whatever its type', async (_, verdict) => {
    const circular: Record<string, unknown> = {};
    circular['self'] = circular;
    const { name, queue } = kit().names();
    const odd = task(name, { queue, input: unchecked<'long' | 'circular'>() });
    const handler = kit().outlast.handler(odd, what =>
      verdict(what === 'long' ? 'x'.repeat(100_000) : (circular as unknown as string)),
    );
    await kit().withWorker([handler], async () => {
      for (const what of ['long', 'circular'] as const) {
        const ended = (await kit().outlast.push(odd, what)).result();
        const { code, message } = await ended.then(
          () => ({ code: 'done', message: '' }),
          (error: { code: string; message: string }) => error,
        );
        expect(code).toBe(verdict === discard ? 'ERR_TASK_DISCARDED' : 'ERR_TASK_FAILED');
        expect(message).toMatch(what === 'long' ? /x{2000}$/ : /cannot be shown/);
        expect(message.length).toBeLessThan(2_200);
      }
    });
  });

  it('retryIn: another run later, and it spends an attempt', async () => {
    const { name, queue } = kit().names();
    const busy = task(name, { queue, result: z.number() });
    await kit().withWorker(
      [
        kit().outlast.handler(busy, (_, ctx) =>
          ctx.attempt === 1 ? retryIn('10ms', 'busy') : ctx.attempt,
        ),
      ],
      async () => {
        expect(await (await kit().outlast.push(busy)).result()).toBe(2);
      },
    );
  });
});

describe('time', () => {
  it('aborts an attempt at its timeout and counts it as failed', async () => {
    const { name, queue } = kit().names();
    const slow = task(name, { queue, timeout: '50ms' });
    const aborted = gate<unknown>();
    const handler = kit().outlast.handler(slow, {
      retry: { maxAttempts: 1 },
      run: (_, ctx) =>
        new Promise<void>(() =>
          ctx.signal.addEventListener('abort', () => aborted.open(ctx.signal.reason)),
        ),
    });
    await kit().withWorker([handler], async () => {
      const sent = await kit().outlast.push(slow);
      expect(await aborted.opened).toMatchObject({ code: 'ERR_TIMEOUT' });
      await expect(sent.result()).rejects.toMatchObject({ code: 'ERR_TASK_FAILED' });
      expect((await kit().deadLetter(sent.id)).reason).toBe('ERR_TIMEOUT');
    });
  });

  it.each(['the schema of its input', 'a migration', 'the schema of its result'])(
    'ends an attempt at its timeout when %s never answers, and releases it when the worker stops',
    async which => {
      const { name, queue } = kit().names();
      let begun = gate();
      const never = (): Promise<never> => {
        begun.open();
        return new Promise(() => undefined);
      };
      const silent = (isSilent: boolean): StandardSchema<string, string> => ({
        '~standard': {
          version: 1,
          vendor: 'test',
          validate: value => (isSilent ? never() : { value: value as string }),
        },
      });
      const handler = kit().outlast.handler(
        task(name, {
          queue,
          version: 2,
          input: silent(which === 'the schema of its input'),
          result: silent(which === 'the schema of its result'),
        }),
        {
          retry: { maxAttempts: 1 },
          migrations: { 1: (old: string) => (which === 'a migration' ? never() : old) },
          run: input => input,
        },
      );
      const sender = { queue, input: unchecked<string>() };
      const limited = await kit().outlast.push(task(name, { ...sender, timeout: '200ms' }), 'x');
      await kit().withWorker([handler], async () => {
        expect((await kit().deadLetter(limited.id)).reason).toBe('ERR_TIMEOUT');
      });
      const unlimited = await kit().outlast.push(task(name, sender), 'x');
      begun = gate();
      await kit().withWorker([handler], () => begun.opened, { shutdownTimeout: '100ms' });
      expect(await createAdmin(kit().outlast).tasks.inspect(unlimited.id)).toMatchObject({
        state: 'waiting',
        failures: 0,
      });
    },
  );

  it('aborts softSignal of a slow run first, and the run continues', async () => {
    const { name, queue } = kit().names();
    const slow = task(name, { queue, softTimeout: '30ms', timeout: '20s', result: z.string() });
    const told = gate<string>();
    const handler = kit().outlast.handler(slow, {
      onSoftTimeout: ctx => told.open(ctx.id),
      run: async (_, ctx) => {
        await new Promise<void>(resolve =>
          ctx.softSignal.addEventListener('abort', () => resolve()),
        );
        return 'came to an end';
      },
    });
    await kit().withWorker([handler], async () => {
      const sent = await kit().outlast.push(slow);
      expect(await sent.result()).toBe('came to an end');
      expect(await told.opened).toBe(sent.id);
    });
  });

  it('keeps a task with a countdown in the database until it is due', async () => {
    const { name, queue } = kit().names();
    const later = task(name, { queue });
    await kit().withWorker([kit().outlast.handler(later, () => undefined)], async () => {
      const soon = await kit().outlast.transaction(tx =>
        kit().outlast.send(tx, later, undefined, { countdown: '1h' }),
      );
      const now = await kit().outlast.transaction(tx => kit().outlast.send(tx, later));
      await now.result();
      expect(await soon.state()).toBe('waiting');
      await kit().database.pool.query(`update outlast_task set due = now() where id = $1`, [
        soon.id,
      ]);
      await soon.result();
    });
  });

  it('never begins an expired task', async () => {
    const { name, queue } = kit().names();
    const stale = task(name, { queue, expires: '1ms' });
    let runs = 0;
    const handler = kit().outlast.handler(stale, () => void (runs += 1));
    const sent = await kit().outlast.transaction(tx => kit().outlast.send(tx, stale));
    await until(
      async () =>
        (
          await kit().database.pool.query(
            'select 1 from outlast_task where id = $1 and expires_at < now()',
            [sent.id],
          )
        ).rowCount === 1,
    );
    await kit().withWorker([handler], async () => {
      await expect(sent.result()).rejects.toMatchObject({ code: 'ERR_TASK_EXPIRED' });
    });
    expect(runs).toBe(0);
  });

  it('aborts a run at its deadline and does not try again', async () => {
    const { name, queue } = kit().names();
    const urgent = task(name, { queue });
    const handler = kit().outlast.handler(
      urgent,
      (_, ctx) =>
        new Promise<void>((_resolve, reject) =>
          ctx.signal.addEventListener('abort', () => reject(ctx.signal.reason as Error)),
        ),
    );
    await kit().withWorker([handler], async () => {
      // A task that came too late never begins: another one is sent.
      const sent = await until(async () => {
        const made = await kit().outlast.transaction(tx =>
          kit().outlast.send(tx, urgent, undefined, { deadline: '500ms' }),
        );
        const code = await made.result().catch((error: { code: string }) => error.code);
        return code === 'ERR_TASK_FAILED' && made;
      });
      expect(
        (await kit().deadLetter(sent.id)).history.filter(entry => entry.step === 'begun'),
      ).toHaveLength(1);
    });
  });
});

describe('a task that cannot run', () => {
  it('waits for a worker that has its handler', async () => {
    const { name, queue } = kit().names();
    const unknown = task(`${name}.unknown`, { queue });
    await kit().withWorker(
      [kit().outlast.handler(task(name, { queue }), () => undefined)],
      async () => {
        const sent = await kit().outlast.push(unknown);
        const { tasks } = createAdmin(kit().outlast);
        await until(async () => {
          const found = await tasks.inspect(sent.id);
          return found?.history.some(({ step }) => step === 'refused') === true;
        });
        expect(await tasks.inspect(sent.id)).toMatchObject({ state: 'waiting' });
      },
    );
  });

  it('is a dead letter when its bytes are not those that were sent', async () => {
    const { name, queue } = kit().names();
    const signed = task(name, { queue, input: unchecked<{ cents: number }>() });
    const sent = await kit().outlast.push(signed, { cents: 1 });
    await kit().database.pool.query(
      `update outlast_task set body = convert_to(replace(convert_from(body, 'UTF8'), '1', '9'), 'UTF8') where id = $1`,
      [sent.id],
    );
    await kit().withWorker([kit().outlast.handler(signed, () => undefined)], async () => {
      expect(await kit().deadLetter(sent.id)).toMatchObject({ reason: 'ERR_DIGEST' });
    });
  });

  it('is a dead letter when its input does not match the schema, and runs after a fix', async () => {
    const { name, queue } = kit().names();
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
    const sent = await kit().outlast.push(loose, { n: 'seven' });
    await kit().withWorker([kit().outlast.handler(strict, input => input)], async () => {
      expect(await kit().deadLetter(sent.id)).toMatchObject({ reason: 'ERR_INPUT_INVALID' });
    });
    await kit().withWorker([kit().outlast.handler(loose, input => input)], async () => {
      expect(await createAdmin(kit().outlast).deadLetters.retry(sent.id)).toBe('ok');
      expect(await createAdmin(kit().outlast).deadLetters.retry(sent.id, 1)).toBe('conflict');
      expect(await sent.result()).toEqual({ n: 'seven' });
    });
  });

  it('is migrated from old versions of its input step by step', async () => {
    const { name, queue } = kit().names();
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
    const handler = kit().outlast.handler(v3, {
      migrations: {
        1: (old: { euros: number }) => ({ cents: old.euros * 100 }),
        2: (old: { cents: number }) => ({ ...old, tenant: 'a' }),
      },
      run: input => input,
    });
    await kit().withWorker([handler], async () => {
      expect(await (await kit().outlast.push(v1, { euros: 5 })).result()).toEqual({
        cents: 500,
        tenant: 'a',
      });
    });
  });

  it('is a dead letter with its bytes when a migration throws, and runs when the migration is fixed', async () => {
    const { name, queue } = kit().names();
    const v1 = task(name, { queue, input: unchecked<{ euros: number }>() });
    const v2 = task(name, {
      queue,
      version: 2,
      input: z.object({ cents: z.number() }),
      result: unchecked<unknown>(),
    });
    const handlerWith = (step: (old: { euros: number }) => { cents: number }) =>
      kit().outlast.handler(v2, { migrations: { 1: step }, run: input => input });
    const broken = handlerWith(() => {
      throw new Error('no rate for that day');
    });
    const { id } = await kit().outlast.push(v1, { euros: 5 });
    const letter = await kit().withWorker([broken], () => kit().deadLetter(id));
    expect(letter).toMatchObject({
      reason: 'ERR_MIGRATION_FAILED',
      error: `the migration of ${name} from version 1 threw: no rate for that day`,
    });
    // The migration itself, not only our description of it.
    await expect(kit().outlast.find(v2, id).result()).rejects.toMatchObject({
      traceback: expect.stringContaining('[cause]: Error: no rate for that day') as string,
    });
    expect(Buffer.from(letter.body).toString()).toContain('"euros":5');
    await kit().withWorker([handlerWith(old => ({ cents: old.euros * 100 }))], async () => {
      expect(await createAdmin(kit().outlast).deadLetters.retry(id)).toBe('ok');
      expect(await kit().outlast.find(v2, id).result()).toEqual({ cents: 500 });
    });
  });

  it('is refused at definition when a version cannot be reached', () => {
    const v3 = task(kit().names().name, { version: 3 });
    expect(() =>
      kit().outlast.handler(v3, { migrations: { 1: (old: unknown) => old }, run: () => undefined }),
    ).toThrow(expect.objectContaining({ code: 'ERR_VERSION_UNREACHABLE' }) as Error);
  });
});
