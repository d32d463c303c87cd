import { describe, expect, it } from 'vitest';
import { createAdmin } from '../../dist/admin/index.js';
import {
  chain,
  chord,
  discard,
  group,
  task,
  unchecked,
  type Handler,
  type TaskContext,
} from '../../dist/index.js';
import { gate, until } from '../support/database.ts';
import { useWorkerKit } from '../support/worker-kit.ts';

const kit = useWorkerKit();

/** Contracts and handlers with names and a queue that no other test uses. */
function setup() {
  const { name, queue } = kit().names();
  const { outlast } = kit();
  const alarms: string[] = [];
  const seen: Pick<TaskContext, 'id' | 'rootId' | 'deadline'>[] = [];
  let isBroken = false;
  const add = task(`${name}.add`, {
    queue,
    args: unchecked<[number | bigint, number | bigint]>(),
    result: unchecked<number | bigint>(),
  });
  const label = task(`${name}.label`, {
    queue,
    params: ['value', 'text'],
    input: unchecked<{ value: number | bigint; text: string }>(),
    result: unchecked<string>(),
  });
  const total = task(`${name}.total`, {
    queue,
    input: unchecked<(number | bigint)[]>(),
    result: unchecked<string>(),
  });
  const nothing = task(`${name}.nothing`, { queue, result: unchecked<string>() });
  const dies = task(`${name}.dies`, {
    queue,
    input: unchecked<number | bigint>(),
    result: unchecked<number | bigint>(),
  });
  const alarm = task(`${name}.alarm`, { queue, input: unchecked<string>() });
  const shout = task(`${name}.shout`, {
    queue,
    input: unchecked<string | string[]>(),
    result: unchecked<string>(),
  });
  const note = (ctx: Pick<TaskContext, 'id' | 'rootId' | 'deadline'>): void =>
    void seen.push({ id: ctx.id, rootId: ctx.rootId, deadline: ctx.deadline });
  const handlers: Handler[] = [
    outlast.handler(add, ({ args: [a, b] }, ctx) => {
      note(ctx);
      return typeof a === 'bigint' || typeof b === 'bigint' ? BigInt(a) + BigInt(b) : a + b;
    }),
    outlast.handler(label, ({ value, text }, ctx) => {
      note(ctx);
      return `${text} ${value}`;
    }),
    outlast.handler(total, values => values.join('+')),
    outlast.handler(shout, text => `${String(text)}!`),
    outlast.handler(nothing, (_, ctx) => {
      note(ctx);
      return 'nothing';
    }),
    outlast.handler(dies, {
      retry: { maxAttempts: 1 },
      run: n => {
        if (n < 0) return discard('negative');
        if (isBroken) throw new Error('broken');
        return n;
      },
    }),
    outlast.handler(alarm, id => void alarms.push(id)),
  ];
  const breakIt = (value: boolean): void => void (isBroken = value);
  return { add, label, total, nothing, dies, alarm, shout, alarms, seen, handlers, breakIt };
}

type Flows = ReturnType<typeof setup>;

const send: ReturnType<typeof kit>['outlast']['sendMany'] = (_, calls) =>
  kit().outlast.transaction(tx => kit().outlast.sendMany(tx, calls));
const NO_TX = undefined as never;
const NEGATIVE = -1;

describe('send', () => {
  it('takes a workflow of each kind, and a task with its input, as `sendMany` does', async () => {
    const { add, total, shout, handlers } = setup();
    const { outlast } = kit();
    const one = add.with({ args: [1, 1] });
    await kit().withWorker(handlers, async () => {
      const sent = await outlast.transaction(async tx => [
        await outlast.send(tx, one),
        await outlast.send(tx, chain(one, add.after({ args: [2] }))),
        await outlast.send(tx, group([one, one])),
        await outlast.send(tx, chord([one, one], total)),
        await outlast.send(tx, shout, 'plain'),
      ]);
      const results = await Promise.all(sent.map(handle => handle.result() as Promise<unknown>));
      expect(results).toEqual([2, 4, [2, 2], '2+2', 'plain!']);
    });
  });

  it('refuses input or options beside a workflow, which would be ignored', async () => {
    const { add, shout } = setup();
    const { outlast } = kit();
    const flow = chain(shout.with('a'), shout);
    const untyped = outlast as unknown as Record<'send', (...given: unknown[]) => Promise<unknown>>;
    const given = [
      [flow, 'input'],
      [flow, undefined, { countdown: '1h' }],
      [add.with({ args: [1, 1] }), { args: [2, 2] }],
    ];
    for (const rest of given) {
      const sending = outlast.transaction(tx => untyped.send(tx, ...rest));
      await expect(sending).rejects.toThrow('input or options are given beside');
    }
  });
});

describe('a chain', () => {
  it('passes results on as the first argument, as the first of `params`, or not at all', async () => {
    const { add, label, nothing, handlers, seen } = setup();
    await kit().withWorker(handlers, async () => {
      const [sent, other] = await send(NO_TX, [
        chain(
          add.with({ args: [2, 2] }, { deadline: '1h' }),
          add.after({ args: [4] }, { keepResult: false }),
          label.after({ text: 'is' }),
        ),
        chain(add.with({ args: [2n ** 70n, 1n] }), add.after({ args: [1] }), nothing),
      ]);
      expect(await sent.result()).toBe('is 8');
      expect(await other.result()).toBe('nothing');
      const chained = seen.filter(({ deadline }) => deadline !== null);
      expect(chained).toHaveLength(3);
      expect(new Set(chained.map(({ rootId }) => rootId))).toEqual(new Set([chained[0]?.id]));
      expect(await sent.state()).toBe('done');
    });
  });

  it('may have groups at its beginning, in its middle and at its end', async () => {
    const { add, label, total, shout, dies, handlers } = setup();
    const first = group([add.with({ args: [1, 1] }), add.with({ args: [2, 2] })]);
    const inner = chain(add.with({ args: [5, 5] }), add.after({ args: [1] }));
    const one = add.with({ args: [1, 1] });
    await kit().withWorker(handlers, async () => {
      const sent = await send(NO_TX, [
        chain(first, total),
        chain(first, total, shout, group([shout, shout.with('alone')])),
        chain(one, group([add.after({ args: [10] }), dies, inner]), total, shout),
        chain(one, group([add.after({ args: [10] }), label.after({ text: 'is' })])),
        chain(group([]), total, shout),
        group([chain(one, group([dies, dies]), total)]),
      ]);
      const results = await Promise.all(sent.map(handle => handle.result() as Promise<unknown>));
      expect(results).toEqual(['2+4', ['2+4!!', 'alone!'], '12+2+11!', [12, 'is 2'], '!', ['2+2']]);
    });
  });

  it('that ends early has ended for a handle that was found for a later step, until it is retried', async () => {
    const { add, dies, label, handlers, breakIt } = setup();
    breakIt(true);
    await kit().withWorker(handlers, async () => {
      const { outlast } = kit();
      const [sent] = await send(NO_TX, [
        chain(dies.with(1), add.after({ args: [1] }), label.after({ text: 'is' })),
      ]);
      const found = outlast.find(label, sent.id);
      const failure = (await found.result().catch((error: unknown) => error)) as { id: string };
      expect(failure).toMatchObject({ code: 'ERR_TASK_FAILED', type: 'Error' });
      expect(failure.id).not.toBe(sent.id);
      expect(await found.state()).toBe('dead');
      breakIt(false);
      expect(await createAdmin(outlast).deadLetters.retry(failure.id)).toBe('ok');
      expect(await found.result()).toBe('is 2');
    });
  });

  it('ends at a group with a failed member, and the error links of the next task run', async () => {
    const { add, dies, total, alarm, alarms, handlers, breakIt } = setup();
    breakIt(true);
    await kit().withWorker(handlers, async () => {
      const [sent] = await send(NO_TX, [
        chain(
          add.with({ args: [1, 1] }),
          group([dies, add.after({ args: [1] })]),
          total.after(undefined, { linkError: alarm }),
        ),
      ]);
      await expect(sent.result()).rejects.toMatchObject({ code: 'ERR_TASK_FAILED' });
      await until(async () => alarms.includes(sent.id));
    });
  });

  it('inside a chord counts as done with its own chord, and as failed with an earlier step', async () => {
    const { add, dies, total, alarm, alarms, shout, handlers, breakIt } = setup();
    const part = chain(dies.with(1), group([add.after({ args: [1] }), dies]), total);
    await kit().withWorker(handlers, async () => {
      const [whole] = await send(NO_TX, [chord([part, shout.with('x')], shout)]);
      expect(await whole.result()).toBe('2+1,x!!');
      breakIt(true);
      const [broken] = await send(NO_TX, [
        chord([part, shout.with('x')], shout.after(undefined, { linkError: alarm })),
      ]);
      await expect(broken.result()).rejects.toMatchObject({ code: 'ERR_TASK_FAILED' });
      await until(async () => alarms.includes(broken.id));
    });
  });

  it.each([
    [
      'two groups in a row',
      ({ dies }: Flows) => chain(dies.with(1), group([dies]) as never, group([dies]) as never),
    ],
    ['a group of nothing', ({ dies }: Flows) => chain(dies.with(1), group([]), dies.with(1))],
    [
      'a group that ends a member of another',
      ({ dies }: Flows) => group([chain(dies.with(1), group([dies]))]),
    ],
    [
      'a group inside of a group',
      ({ dies }: Flows) =>
        chain(dies.with(1), group([chain(dies.with(1), group([dies]), dies.with(1))])),
    ],
  ])('is refused with %s', async (_, make) => {
    const flows = setup();
    const sending = async () => await send(NO_TX, [make(flows)]);
    await expect(sending()).rejects.toMatchObject({ code: 'ERR_OPTION_RANGE' });
  });

  it('keeps every digit of the results that it passes on', async () => {
    const { add, label, handlers } = setup();
    await kit().withWorker(handlers, async () => {
      const [sent] = await send(NO_TX, [
        chain(add.with({ args: [2n ** 70n, 1n] }), label.after({ text: 'is' })),
      ]);
      expect(await sent.result()).toBe('is 1180591620717411303425');
    });
  });

  it('ends at a dead step, and the error for the waiter names that step', async () => {
    const { dies, add, alarm, alarms, handlers, breakIt } = setup();
    breakIt(true);
    await kit().withWorker(handlers, async () => {
      const [sent] = await send(NO_TX, [
        chain(
          add.with({ args: [1, 1] }),
          dies.after(undefined, { linkError: alarm, id: `${dies.name}-step` }),
          add.after({ args: [1] }),
        ),
      ]);
      await expect(sent.result()).rejects.toMatchObject({
        code: 'ERR_TASK_FAILED',
        id: `${dies.name}-step`,
      });
      expect(await sent.state()).toBe('dead');
      await until(() => Promise.resolve(alarms.length));
      expect(alarms).toEqual([`${dies.name}-step`]);
    });
  });

  it('continues when a dead step is revived', async () => {
    const { dies, add, handlers, breakIt } = setup();
    breakIt(true);
    await kit().withWorker(handlers, async () => {
      const id = `${dies.name}-step`;
      const [sent] = await send(NO_TX, [chain(dies.with(1, { id }), add.after({ args: [1] }))]);
      await kit().deadLetter(id);
      breakIt(false);
      expect(await createAdmin(kit().outlast).deadLetters.retry(id)).toBe('ok');
      expect(await sent.result()).toBe(2);
    });
  });

  it('does not start again where it was cancelled', async () => {
    const { add, handlers } = setup();
    const { queue } = add.contract;
    const [sent] = await send(NO_TX, [
      chain(add.with({ args: [1, 1] }), add.after({ args: [2] }), add.after({ args: [3] })),
    ]);
    await sent.cancel();
    await kit().withWorker(handlers, async () => {
      await expect(sent.result()).rejects.toMatchObject({ code: 'ERR_TASK_CANCELLED' });
      const text = `select 1 from outlast_task where queue = $1 and state = 'done'`;
      expect((await kit().database.pool.query(text, [queue])).rowCount).toBe(0);
    });
  });
});

describe('links', () => {
  it('of a done task are all sent, and error links of a dead one', async () => {
    const { dies, label, nothing, alarm, alarms, seen, handlers, breakIt } = setup();
    await kit().withWorker(handlers, async () => {
      const options = { link: [label.after({ text: 'got' }), nothing], linkError: alarm };
      const ask = () => send(NO_TX, [dies.with(7, options)]);
      await ask();
      await until(() => Promise.resolve(seen.length === 2));
      expect(alarms).toEqual([]);
      breakIt(true);
      const [dead] = await ask();
      await until(() => Promise.resolve(alarms.length));
      expect(alarms).toEqual([dead?.id]);
      expect(seen).toHaveLength(2);
    });
  });

  it('of a task that exceeded its crash budget are sent by recovery', async () => {
    const { dies, alarm, alarms, handlers } = setup();
    const { pool } = kit().database;
    const [sent] = await send(NO_TX, [dies.with(7, { linkError: alarm })]);
    await until(async () => (await sent.state()) === 'waiting');
    // As if it had been running under a process that was condemned once too often.
    await pool.query(
      `insert into outlast_worker (id, process, host, pid, state, lease_ms, deadline)
       values ('gone', 'p', 'h', 1, 'closed', 1, now())`,
    );
    await pool.query(
      `update outlast_task set state = 'running', owner = 'gone', run = 'r', epoch = 1, crash_budget = 0 where id = $1`,
      [sent.id],
    );
    await until(async () => (await sent.state()) === 'dead');
    await kit().withWorker(handlers, async () => {
      await until(() => Promise.resolve(alarms.length));
      expect(alarms).toEqual([sent.id]);
      await until(async () => (await pool.query('select 1 from outlast_after')).rowCount === 0);
    });
  });
});

describe('a group', () => {
  it('is done when all its members are, and returns all results in order', async () => {
    const { add, label, handlers } = setup();
    await kit().withWorker(handlers, async () => {
      const [sent] = await send(NO_TX, [
        group([
          add.with({ args: [1, 2] }),
          label.with({ value: 1, text: 'one' }),
          chain(add.with({ args: [1, 1] }), label.after({ text: 'two' })),
        ]),
      ]);
      const results: [number | bigint, string, string] = await sent.result();
      expect(results).toEqual([3, 'one 1', 'two 2']);
      expect(await sent.state()).toBe('done');
    });
  });

  it('reports which member failed', async () => {
    const { add, dies, handlers, breakIt } = setup();
    breakIt(true);
    await kit().withWorker(handlers, async () => {
      const id = `${dies.name}-1`;
      const [sent] = await send(NO_TX, [group([add.with({ args: [1, 2] }), dies.with(1, { id })])]);
      await expect(sent.result()).rejects.toMatchObject({ code: 'ERR_TASK_FAILED', id });
      expect(await sent.state()).toBe('dead');
    });
  });
});

describe('a chord', () => {
  it('is open from its sending on, and runs its body once, with the results of its header in order', async () => {
    const { add, total, handlers } = setup();
    const members = Array.from({ length: 20 }, (_, n) => add.with({ args: [n, 100] }));
    const [sent, mixed] = await send(NO_TX, [
      chord(members, total),
      chord(
        [
          chain(add.with({ args: [1, 1] }), add.after({ args: [2] })),
          add.with({ args: [2n ** 64n, 0] }),
        ],
        total,
      ),
    ]);
    const open = async () =>
      (await createAdmin(kit().outlast).stats({ top: 100 })).chords.oldest
        .filter(({ body }) => body === total.name)
        .map(({ parts, size }) => `${parts} of ${size}`);
    expect((await open()).toSorted()).toEqual(['0 of 2', '0 of 20']);
    await kit().withWorker(handlers, async () => {
      expect(await sent.result()).toBe(members.map((_, n) => n + 100).join('+'));
      expect(await mixed.result()).toBe('4+18446744073709551616');
      const text = 'select 1 from outlast_task where name = $1';
      expect((await kit().database.pool.query(text, [total.name])).rowCount).toBe(2);
      expect(await open()).toEqual([]);
    });
  });

  it('that cannot complete is reported and listed, and completes when its header is revived', async () => {
    const { dies, total, alarm, alarms, handlers, breakIt } = setup();
    breakIt(true);
    await kit().withWorker(handlers, async () => {
      const bodyId = `${total.name}-body`;
      const ids = ['1', '2'].map(n => `${dies.name}-${n}`);
      const [sent] = await send(NO_TX, [
        chord(
          ids.map((id, n) => dies.with(n, { id })),
          total.after(undefined, { id: bodyId, linkError: alarm }),
        ),
      ]);
      await expect(sent.result()).rejects.toMatchObject({ code: 'ERR_TASK_FAILED' });
      await until(() => Promise.resolve(alarms.length));
      expect(alarms).toEqual([bodyId]);
      expect(await kit().deadLetter(`${bodyId}#chord`)).toMatchObject({
        name: total.name,
        reason: 'ERR_CHORD_FAILED',
      });
      breakIt(false);
      const { deadLetters } = createAdmin(kit().outlast);
      for (const id of ids) {
        await kit().deadLetter(id);
        expect(await deadLetters.retry(id)).toBe('ok');
      }
      expect(await sent.result()).toBe('0+1');
    });
  });

  it.each(['cancelled', 'discarded', 'expired'] as const)('fails when a part was %s', async how => {
    const { dies, add, total, alarm, alarms, handlers } = setup();
    const bodyId = `${total.name}-body`;
    const id = `${dies.name}-1`;
    const part =
      how === 'discarded'
        ? dies.with(NEGATIVE, { id })
        : dies.with(1, { id, ...(how === 'expired' ? { expires: '1ms' } : {}) });
    const [sent] = await send(NO_TX, [
      chord(
        [add.with({ args: [1, 1] }), chain(part, add.after({ args: [1] }))],
        total.after(undefined, { id: bodyId, linkError: alarm }),
      ),
    ]);
    if (how === 'cancelled') await kit().outlast.find(dies, id).cancel();
    await kit().withWorker(handlers, async () => {
      await until(() => Promise.resolve(alarms.length));
      expect(alarms).toEqual([bodyId]);
      await expect(sent.result()).rejects.toMatchObject({
        code: `ERR_TASK_${how.toUpperCase()}`,
        id,
      });
    });
  });
});

describe('a task sent by a handler', () => {
  it('knows its parent and the root of the workflow, however it is sent', async () => {
    const { name, queue } = kit().names();
    const { outlast, database } = kit();
    const child = task(`${name}.child`, { queue });
    const parent = task(`${name}.parent`, { queue, result: unchecked<string[]>() });
    const sentIds = gate<string[]>();
    const handler = outlast.handler(parent, async (_, ctx) => {
      const ids = [await ctx.send(child)];
      ids.push((await outlast.transaction(tx => outlast.send(tx, child))).id);
      ids.push((await outlast.push(child)).id);
      sentIds.open(ids);
      return [ctx.id, ctx.rootId];
    });
    await kit().withWorker([handler, outlast.handler(child, () => undefined)], async () => {
      const [sent] = await send(NO_TX, [chain(parent.with(), child)]);
      await sent.result();
      const ids = await sentIds.opened;
      const [parentId] = await until(async () => {
        const text = `select id from outlast_task where name = $1`;
        return (await database.pool.query<{ id: string }>(text, [parent.name])).rows.map(
          row => row.id,
        );
      });
      for (const id of ids) {
        const options = await until(async () => {
          const text = `select convert_from(options, 'UTF8') as options from outlast_task where id = $1`;
          return (await database.pool.query<{ options: string }>(text, [id])).rows[0]?.options;
        });
        expect(JSON.parse(options)).toEqual({ rootId: parentId, parentId });
      }
    });
  });
});
