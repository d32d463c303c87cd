import { describe, expect, it, onTestFinished } from 'vitest';
import { z } from 'zod';
import { createAdmin } from '../admin/index.ts';
import { createOutlast } from '../app/create-outlast.ts';
import type { TransactionAdapter } from '../outbox/transaction-adapter.ts';
import { chain, chord, group } from '../task/index.ts';
import { task } from '../task/define-task.ts';
import { bury, discard } from '../task/verdict.ts';
import { createTestKit, type TestKit, type TestKitOptions } from './create-test-kit.ts';
import { assertSent } from './match-sent.ts';
// oxlint-disable-next-line import/no-unassigned-import -- as users import it
import './vitest.ts';

const charge = task('kit.charge', {
  input: z.object({ order: z.string(), cents: z.number() }),
  result: z.string(),
});
const receipt = task('kit.receipt', { input: z.string(), queue: 'mail' });

interface Tx {
  insert(row: string): void;
}

/** The adapter of a library whose server does not exist: a kit never asks it. */
const adapter: TransactionAdapter<Tx> = {
  dialect: 'postgres',
  endsIdleTransactions: false,
  location: 'server',
  execute: () => Promise.reject(new Error('connected')),
  transaction: () => Promise.reject(new Error('connected')),
  status: () => 'open',
};

const rows: string[] = [];

function instance(options: object = {}) {
  const outlast = createOutlast({ database: 'postgres://127.0.0.1:1/none', ...options, adapter });
  const runs: string[] = [];
  rows.length = 0;
  const charging = outlast.handler(charge, {
    retry: { maxAttempts: 3, backoff: '10s' },
    run: async ({ order, cents }, ctx) => {
      runs.push(`${order}#${ctx.attempt}`);
      if (cents === 0) return discard('free');
      if (cents < 0) return bury('negative');
      if (cents === 13 && ctx.attempt < 3) throw new Error('unlucky');
      await ctx.transaction(async tx => {
        tx.insert(order);
        await outlast.send(tx, receipt, order);
      });
      return `paid ${order}`;
    },
  });
  const mailing = outlast.handler(receipt, async to => void runs.push(`mail ${to}`));
  return { outlast, runs, tasks: [charging, mailing] };
}

async function setup(config: object = {}, options: TestKitOptions<Tx> = {}) {
  const made = instance(config);
  const tx = (): Tx => ({ insert: row => void rows.push(row) });
  const kit = await createTestKit(made.outlast, { tasks: made.tasks, tx, ...options });
  onTestFinished(() => kit[Symbol.asyncDispose]());
  const send = (order: string, cents = 1, more = {}) =>
    made.outlast.transaction(t => made.outlast.send(t, charge, { order, cents }, more));
  return { ...made, kit, send };
}

const kinds = async (kit: TestKit) => {
  const { crashes: _, ...report } = await kit.drain();
  return Object.fromEntries(Object.entries(report).filter(([, count]) => count > 0));
};

describe('a test kit', () => {
  it('runs what was sent, with its follow-up from ctx.transaction, and connects to nothing', async () => {
    const { kit, send, runs } = await setup();
    const sent = await send('1');
    expect(await sent.state()).toBe('pending');
    expect(await kinds(kit)).toEqual({ done: 2 });
    expect(await sent.result()).toBe('paid 1');
    expect([runs, rows]).toEqual([['1#1', 'mail 1'], ['1']]);
  });

  it('holds a delayed task until its clock has come there, and takes no real time for it', async () => {
    const { kit, send, runs } = await setup();
    await send('1', 1, { countdown: '30d' });
    expect(await kinds(kit)).toEqual({ waiting: 1 });
    await kit.clock.advance('29d');
    expect(await kinds(kit)).toEqual({ waiting: 1 });
    await kit.clock.advance('1d');
    expect(await kinds(kit)).toEqual({ done: 2 });
    expect(runs).toEqual(['1#1', 'mail 1']);
  });

  it('runs retries when their time has come, or in one drain with `within`', async () => {
    const { kit, send, runs } = await setup();
    await send('1', 13);
    expect(await kinds(kit)).toEqual({ waiting: 1 });
    const before = kit.clock.now().getTime();
    expect(await kit.drain({ within: '5m' })).toMatchObject({ done: 2, waiting: 0 });
    expect(runs).toEqual(['1#1', '1#2', '1#3', 'mail 1']);
    expect(kit.clock.now().getTime()).toBeGreaterThan(before);
  });

  it('reports verdicts and dead letters, which operators read and revive as anywhere', async () => {
    const { kit, send, outlast } = await setup();
    await send('free', 0);
    await send('bad', -1);
    expect(await kinds(kit)).toEqual({ discarded: 1, dead: 1 });
    const { items } = await createAdmin(outlast).deadLetters.list();
    expect(items.map(({ name }) => name)).toEqual(['kit.charge']);
  });

  it('lists what was sent with its input, and finds it by a part of that', async () => {
    const { kit, send } = await setup();
    await send('1', 5, { headers: { region: 'eu' } });
    await send('2', 7);
    expect(kit.sent(charge)).toMatchObject([
      { input: { order: '1', cents: 5 }, headers: { region: 'eu' }, eta: null },
      { input: { order: '2' } },
    ]);
    assertSent(kit, charge, { input: { order: '1' }, times: 1 });
    expect(() => assertSent(kit, charge, { input: { cents: 6 } })).toThrow(
      /at least one kit\.charge with .*0 of 2 sent match/,
    );
    expect(() => assertSent(kit, receipt)).toThrow('0 of 0');
    const order = expect.any(String) as string;
    expect(kit).toHaveSentTask(charge, { input: { order }, times: 2 });
    expect(kit).not.toHaveSentTask(receipt);
    expect(() => expect(kit).toHaveSentTask(receipt)).toThrow('kit.receipt');
  });

  it('loses nothing and repeats no effect when a worker dies between run and commit', async () => {
    const { kit, send, runs } = await setup();
    await send('1');
    kit.crashAt('worker.ran-not-committed');
    const report = await kit.drain();
    expect(report).toMatchObject({ done: 2, waiting: 0, crashes: ['worker.ran-not-committed'] });
    // The queues take turns by chance.
    expect(runs.toSorted()).toEqual(['1#1', '1#1', 'mail 1']);
    expect(rows).toEqual(['1']);
  });

  it.each([
    'relay.moved',
    'worker.begun-not-started',
    'door.fenced',
    'door.effect-not-committed',
  ] as const)('ends every task once when a process dies at %s', async point => {
    const { kit, send } = await setup();
    await send('1');
    kit.crashAt(point);
    expect(await kit.drain({ within: '1h' })).toMatchObject({ done: 2, crashes: [point] });
    expect(kit.sent(receipt)).toHaveLength(1);
  });

  it('sends the next step of a chain although the worker died before it could', async () => {
    const { kit, outlast, runs } = await setup();
    const flow = chain(charge.with({ order: '1', cents: 1 }), receipt);
    await outlast.transaction(tx => outlast.sendMany(tx, [flow]));
    kit.crashAt('worker.committed-not-followed');
    const report = await kit.drain({ within: '1m' });
    expect(report.crashes).toEqual(['worker.committed-not-followed']);
    expect(runs.filter(run => run === 'mail paid 1')).toHaveLength(1);
  });

  it('runs groups and chords', async () => {
    const { kit, outlast, runs } = await setup();
    const both = ['1', '2'].map(order => charge.with({ order, cents: 1 }));
    const all = task('kit.all', { input: z.array(z.string()), result: z.number() });
    const [grouped, joined] = await outlast.transaction(tx =>
      outlast.sendMany(tx, [group(both), chord(both, all)]),
    );
    await kit.drain();
    expect(await grouped?.result()).toEqual(['paid 1', 'paid 2']);
    expect(kit.sent(all)).toMatchObject([{ input: ['paid 1', 'paid 2'] }]);
    expect(await joined?.state()).toBe('waiting');
    expect(runs).toHaveLength(8);
  });

  it('shows a COMMIT whose answer is lost: the task is there, and a repeat under its id is the same task', async () => {
    const { kit, send } = await setup();
    kit.loseReply('transaction');
    await expect(send('1', 1, { id: 'order-1' })).rejects.toMatchObject({
      code: 'ERR_STORE_UNAVAILABLE',
    });
    expect(kit.sent(charge)).toHaveLength(1);
    expect((await send('1', 1, { id: 'order-1' })).isNew).toBe(false);
    expect(await kinds(kit)).toEqual({ done: 2 });
  });

  it('shows a COMMIT that failed: there is no task', async () => {
    const { kit, send } = await setup();
    kit.failNext('transaction', new Error('deadlock'));
    await expect(send('1')).rejects.toThrow('deadlock');
    expect(kit.sent(charge)).toEqual([]);
    expect(await kinds(kit)).toEqual({});
  });

  it.each(['begin', 'commit', 'relay'] as const)(
    'ends every task once when the answer to `%s` is lost, or the call fails',
    async step => {
      const { kit, send } = await setup();
      await send('1');
      kit.loseReply(step);
      kit.failNext(step);
      expect(await kit.drain({ within: '1h' })).toMatchObject({ done: 2, crashes: [] });
      expect(rows).toEqual(['1']);
    },
  );

  it('keeps nothing of a transaction that was rolled back, and reports what escapes it', async () => {
    const { kit, outlast, send } = await setup({ excludeTasks: ['kit.receipt'] });
    const nothing = await kit.rolledBack(async tx => {
      await outlast.send(tx, charge, { order: '1', cents: 1 });
    });
    expect(nothing).toEqual([]);
    const escaped = await kit.rolledBack(tx => outlast.send(tx, receipt, 'me'));
    expect(escaped).toMatchObject([{ name: 'kit.receipt', input: 'me' }]);
    await expect(kit.rolledBack(() => Promise.reject(new Error('own')))).rejects.toThrow('own');
    await send('2');
    expect(kit.sent(charge)).toHaveLength(1);
  });

  it('refuses a send through a transaction that has ended, and takes one through a foreign handle', async () => {
    const { kit, outlast } = await setup();
    const ended = await outlast.transaction(async tx => tx);
    await expect(outlast.send(ended, receipt, 'late')).rejects.toMatchObject({
      code: 'ERR_NOT_IN_TRANSACTION',
    });
    await outlast.send({ insert: () => undefined }, receipt, 'foreign');
    expect(kit.sent(receipt).map(({ input }) => input)).toEqual(['foreign']);
  });

  it('has one task per idempotency key, and refuses another input under it', async () => {
    const { send, kit } = await setup();
    const first = await send('1', 1, { idempotencyKey: 'k' });
    const again = await send('1', 1, { idempotencyKey: 'k' });
    expect([again.id, again.isNew]).toEqual([first.id, false]);
    await expect(send('2', 1, { idempotencyKey: 'k' })).rejects.toMatchObject({
      code: 'ERR_IDEMPOTENCY_MISMATCH',
    });
    await kit.drain();
    await kit.clock.advance('25h');
    expect((await send('2', 1, { idempotencyKey: 'k' })).isNew).toBe(true);
  });

  it('limits a rate by its own clock', async () => {
    const { kit, send } = await setup({
      admission: { 'task:kit.charge': { rate: { limit: 1, per: '1h' } } },
    });
    await send('1');
    await send('2');
    expect(await kit.drain()).toMatchObject({ done: 2, waiting: 1 });
    expect(await kit.drain({ within: '2h' })).toMatchObject({ done: 4, waiting: 0 });
  });

  it('waits for a handler that waits for the outside world, and stops one that outlasts its timeout when the clock moves', async () => {
    const { outlast } = instance();
    const slow = task('kit.slow', { timeout: '30s' });
    let started = (): void => undefined;
    const running = new Promise<void>(resolve => (started = resolve));
    const handler = outlast.handler(slow, {
      retry: { maxAttempts: 1 },
      run: (_, ctx) => {
        started();
        return new Promise<void>((_resolve, reject) =>
          ctx.signal.addEventListener('abort', () => reject(new Error('stopped'))),
        );
      },
    });
    await using kit = await createTestKit(outlast, { tasks: [handler] });
    await outlast.transaction(tx => outlast.send(tx, slow));
    const draining = kit.drain();
    await running;
    await kit.clock.advance('30s');
    expect(await draining).toMatchObject({ dead: 1 });
  });

  it('aborts a task that names no timeout after that of the worker, and leaves others their own', async () => {
    const { outlast } = instance({ worker: { timeout: '10s' } });
    const runs = ['kit.endless', 'kit.longer'].map(name => {
      const contract = task(name, name === 'kit.longer' ? { timeout: '20s' } : {});
      let start = (): void => undefined;
      const started = new Promise<void>(resolve => (start = resolve));
      const handler = outlast.handler(contract, {
        retry: { maxAttempts: 1 },
        run: (_, ctx) => {
          start();
          return new Promise<void>((_resolve, reject) =>
            ctx.signal.addEventListener('abort', () => reject(new Error('stopped'))),
          );
        },
      });
      return { contract, started, handler };
    });
    await using kit = await createTestKit(outlast, { tasks: runs.map(({ handler }) => handler) });
    const sent = await outlast.transaction(tx =>
      outlast.sendMany(
        tx,
        runs.map(({ contract }) => contract.with()),
      ),
    );
    const draining = kit.drain();
    await Promise.all(runs.map(({ started }) => started));
    const states = async () => await Promise.all(sent.map(handle => handle.state()));
    await kit.clock.advance('11s');
    expect(await states()).toEqual(['dead', 'running']);
    await kit.clock.advance('9s');
    expect(await draining).toMatchObject({ dead: 2 });
  });

  it('says what was meant where a call is slightly wrong', async () => {
    const { outlast, send, kit } = await setup();
    const hint = (text: string): unknown => expect.objectContaining({ hint: text });
    await expect(send('1', 1, { countDown: '5s' })).rejects.toEqual(
      hint('Did you mean `countdown`?'),
    );
    const swapped = outlast.transaction(tx => outlast.send(charge as never, tx as never));
    await expect(swapped).rejects.toEqual(
      expect.objectContaining({
        hint: expect.stringContaining('send(tx, task, input)') as unknown,
      }),
    );
    class Result {
      rows = [];
    }
    const arrow = outlast.handler(receipt, async (_, ctx) => {
      await ctx.transaction(async () => new Result());
    });
    expect(await kit.perform(arrow, 'x')).toMatchObject({
      state: 'retry',
      error: {
        message: expect.stringMatching(/ctx\.transaction .* step main .* a Result/) as unknown,
      },
    });
  });

  it('performs one run of a handler, with the attempt it is told, and beside what else waits', async () => {
    const { kit, send, outlast, tasks, runs } = await setup();
    const [charging] = tasks as [(typeof tasks)[0]];
    await send('other');
    await kit.relayOnce();
    const run = (cents: number, more = {}) => kit.perform(charging, { order: 'p', cents }, more);
    expect(await run(0)).toEqual({ state: 'discarded', why: 'free' });
    expect(await run(-1)).toMatchObject({ state: 'dead', error: { message: 'negative' } });
    expect(await run(13, { attempt: 2 })).toMatchObject({
      state: 'retry',
      error: { message: 'unlucky' },
    });
    expect(await run(13, { attempt: 3 })).toEqual({ state: 'done', result: 'paid p' });
    kit.crashAt('worker.ran-not-committed');
    expect(await run(1)).toEqual({ state: 'crashed' });
    const bad = kit.perform(charging, { order: 1 });
    await expect(bad).rejects.toMatchObject({ code: 'ERR_INPUT_INVALID' });
    expect(runs).toEqual(['p#1', 'p#1', 'p#2', 'p#3', 'p#1']);
    expect(kit.sent(charge).map(({ input }) => input.order)).toEqual(['other']);
    expect(await outlast.find(charge, kit.sent(charge)[0]?.id ?? '').state()).toBe('waiting');
    expect((await kit.drain()).waiting).toBe(0);
  });

  it('says what a transaction in memory does not have', async () => {
    const { outlast, tasks } = instance();
    const kit = await createTestKit(outlast, { tasks });
    onTestFinished(() => kit[Symbol.asyncDispose]());
    await expect(outlast.transaction(async tx => tx.insert('1'))).rejects.toMatchObject({
      code: 'ERR_CONFIG_TIER',
      message: expect.stringContaining('insert') as string,
    });
  });

  it('gives the instance back when it is disposed, and is the only one until then', async () => {
    const { outlast } = instance();
    const kit = await createTestKit(outlast);
    await expect(createTestKit(outlast)).rejects.toMatchObject({ code: 'ERR_OPTIONS_CONFLICT' });
    await kit[Symbol.asyncDispose]();
    await expect(outlast.transaction(async () => 1)).rejects.toThrow('connected');
    await (await createTestKit(outlast))[Symbol.asyncDispose]();
    await outlast.close();
  });
});

describe('schedules in a kit', () => {
  it('fire by the clock of the kit, from the configuration and from programs', async () => {
    const schedule = { hourly: { call: receipt.with('config'), cron: '0 * * * *' } };
    const { outlast, runs, tasks } = instance({ schedule });
    const kit = await createTestKit(outlast, { tasks, now: new Date('2026-06-01T00:30:00Z') });
    onTestFinished(() => kit[Symbol.asyncDispose]());
    await outlast.schedules.put('often', { call: receipt.with('program'), every: '40m' });
    kit.crashAt('schedule.due');
    await kit.drain({ within: '1h' });
    // Slots at 00:40, 01:00 and 01:20.
    expect(runs).toEqual(['mail program', 'mail config', 'mail program']);
    expect(kit.sent(receipt)[1]?.headers).toEqual({
      schedule: 'hourly',
      'schedule-slot': '2026-06-01T01:00:00.000Z',
    });
    const listed = await outlast.schedules.list();
    expect(listed.map(({ name, origin, fired, error }) => [name, origin, fired, error])).toEqual([
      ['hourly', 'config', 1, null],
      ['often', 'api', 2, null],
    ]);
    await expect(outlast.schedules.remove('hourly')).rejects.toMatchObject({
      code: 'ERR_SCHEDULE_OWNED',
    });
    await expect(outlast.schedules.pause('none')).rejects.toMatchObject({
      code: 'ERR_SCHEDULE_UNKNOWN',
    });
    expect(await outlast.schedules.remove('often')).toBe(true);
  });
});
