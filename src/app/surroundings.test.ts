import { describe, expect, it, onTestFinished } from 'vitest';
import { z } from 'zod';
import { createTestKit } from '../testing/create-test-kit.ts';
import { chain, chord } from '../task/index.ts';
import { task } from '../task/define-task.ts';
import { currentContext, withContext } from '../telemetry/ambient.ts';
import type { Logger } from '../telemetry/logger.ts';
import { createOutlast } from './create-outlast.ts';

const first = task('context.first', { input: z.string(), result: z.string() });
const next = task('context.next', { input: z.string(), result: z.string() });
const last = task('context.last', { input: z.array(z.string()), result: z.string() });
const child = task('context.child', { input: z.string() });

/** A log whose lines, with the fields that were bound, a test can read. */
function memoryLog(lines: Record<string, unknown>[], bound: object = {}): Logger {
  const write = (fields: object, message: string): void =>
    void lines.push({ ...bound, ...fields, message });
  return {
    debug: write,
    info: write,
    warn: write,
    error: write,
    child: fields => memoryLog(lines, { ...bound, ...fields }),
  };
}

async function setup(context: object = { context: ['requestId', 'user'] }) {
  const lines: Record<string, unknown>[] = [];
  const outlast = createOutlast({ ...context, log: memoryLog(lines) });
  const seen: Record<string, unknown> = {};
  const ran: Record<string, readonly unknown[]> = {};
  const note = (ctx: { name: string; context: object; headers: object; log: Logger }): void => {
    seen[ctx.name] = ctx.context;
    ran[ctx.name] = [currentContext(), ctx.headers];
    ctx.log.info({}, `ran ${ctx.name}`);
  };
  const tasks = [
    outlast.handler(first, async (input, ctx) => {
      note(ctx);
      await ctx.send(child, input);
      return input;
    }),
    outlast.handler(next, (input, ctx) => (note(ctx), input)),
    outlast.handler(last, (input, ctx) => (note(ctx), input.join())),
    outlast.handler(child, (_input, ctx) => note(ctx)),
  ];
  const kit = await createTestKit(outlast, { tasks });
  onTestFinished(() => kit[Symbol.asyncDispose]());
  return { outlast, kit, seen, ran, lines };
}

describe('the context of a task', () => {
  const CONTEXT = { requestId: 'r-17', user: 'ann' };

  it('reaches chain steps, chord bodies and what handlers send; each with what it logs', async () => {
    const { outlast, kit, seen, ran, lines } = await setup();
    await withContext({ ...CONTEXT, secret: 'no' }, () =>
      outlast.transaction(tx =>
        outlast.sendMany(tx, [
          chain(first.with('a', { headers: { region: 'eu' } }), next),
          chord([next.with('b')], last),
        ]),
      ),
    );
    expect(await kit.drain()).toMatchObject({ done: 5 });
    const names = [first, next, last, child].map(({ name }) => name);
    expect(seen).toEqual(Object.fromEntries(names.map(name => [name, CONTEXT])));
    expect(ran[next.name]?.[0]).toEqual(CONTEXT);
    expect(ran[child.name]).toEqual([CONTEXT, { ...CONTEXT, region: 'eu' }]);
    for (const name of names)
      expect(lines).toContainEqual(expect.objectContaining({ ...CONTEXT, message: `ran ${name}` }));
    const done = lines.filter(({ message }) => message === 'task:done');
    expect(done).toMatchObject(Array.from({ length: 5 }, () => CONTEXT));
    expect(currentContext()).toEqual({});
  });

  it('may come from a function, whose failure leaves the send as it is', async () => {
    let fails = false;
    const { outlast, kit, seen, lines } = await setup({
      context: () => {
        if (fails) throw new Error('no request');
        return {
          requestId: 7,
          nothing: undefined,
          deep: {},
          'not a name': 'x',
          long: 'y'.repeat(999),
        };
      },
    });
    await outlast.transaction(tx => outlast.send(tx, next, 'a'));
    await kit.drain();
    expect(seen[next.name]).toEqual({ requestId: '7', long: 'y'.repeat(256) });
    fails = true;
    await outlast.transaction(tx => outlast.send(tx, next, 'a'));
    await kit.drain();
    expect(seen[next.name]).toEqual({});
    expect(lines.some(({ message }) => String(message).includes('`context`'))).toBe(true);
  });

  it('does not make a repeated send another one', async () => {
    const { outlast } = await setup();
    const send = async (requestId: string) =>
      await withContext({ requestId }, () =>
        outlast.transaction(tx =>
          outlast.sendMany(tx, [chain(first.with('a', { id: 'one' }), next)]),
        ),
      );
    await send('r-1');
    expect((await send('r-2'))[0].isNew).toBe(false);
  });

  it('is bounded, whatever sender wrote the headers', async () => {
    const { outlast, kit, seen } = await setup({});
    const many = Object.fromEntries(
      Array.from({ length: 40 }, (_, at) => [`k${at}`, 'v'.repeat(300)]),
    );
    const headers = {
      ...many,
      'outlast-context': `${Object.keys(many).join(',')},__proto__,toString`,
    };
    await outlast.transaction(tx => outlast.send(tx, next, 'a', { headers }));
    await kit.drain();
    const values = Object.values(seen[next.name] ?? {});
    expect([values.length, values.every(value => String(value).length === 256)]).toEqual([
      16,
      true,
    ]);
  });

  it('takes names or a function only', () => {
    expect(() => createOutlast({ context: ['a b'] })).toThrow('context');
    expect(() => createOutlast({ context: Array.from({ length: 17 }, (_, n) => `k${n}`) })).toThrow(
      'context',
    );
  });
});
