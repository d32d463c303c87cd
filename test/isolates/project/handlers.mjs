import { appendFileSync } from 'node:fs';
import { isMainThread, threadId } from 'node:worker_threads';
import pg from 'pg';
import { z } from 'zod';
import { createOutlast, currentTask, discard, retryIn, task, unchecked } from 'outlast';
import { fromPg } from 'outlast/pg';
import config from './outlast.config.mjs';

const pool = new pg.Pool({ connectionString: process.env.OUTLAST_DATABASE_URL, max: 2 });
pool.on('error', () => undefined);
const outlast = createOutlast({ ...config, adapter: fromPg(pool) });
const queue = 'isolates';

class CardDeclined extends Error {}

/** Where this copy of the module lives. */
const place = () => ({ pid: process.pid, threadId, isMainThread });

const note = (tx, table, ctx) =>
  tx.query(`insert into ${table} (task_id, epoch, pid) values ($1, $2, $3)`, [
    ctx.id,
    ctx.epoch,
    process.pid,
  ]);

const aborted = signal =>
  new Promise(resolve => signal.addEventListener('abort', resolve, { once: true }));

/** Runs that wait to be told softly, by their context: it must be the same one. */
const softly = new Map();

/** What a handler can do, by name: the same in every mode. */
const DEEDS = {
  look: async (input, ctx) => ({
    ...place(),
    id: ctx.id,
    name: ctx.name,
    queue: ctx.queue,
    headers: ctx.headers,
    isParsed: ctx.input.at instanceof Date && input.at instanceof Date,
    attempt: ctx.attempt,
    resurrections: ctx.resurrections,
    epoch: ctx.epoch,
    fence: ctx.fence,
    deadline: ctx.deadline?.toISOString() ?? null,
    signals: [ctx.signal.aborted, ctx.softSignal.aborted],
    current: currentTask()?.id,
  }),
  log: (_, ctx) => ctx.log.info({ shown: () => 1, error: new RangeError('odd') }, 'a line of mine'),
  progress: async (_, ctx) => {
    if (ctx.attempt === 2) return ctx.lastCheckpoint;
    await ctx.checkpoint({ page: 7, big: 2n ** 60n });
    throw new Error('once');
  },
  effect: async (_, ctx) => {
    await note(pool, 'run', ctx);
    const value = await ctx.transaction(async tx => {
      await note(tx, 'effect', ctx);
      await outlast.send(tx, sentTask, undefined, { id: `${ctx.id}-sent` });
      return ctx.epoch;
    });
    if (ctx.resurrections === 0) process.exit(3);
    return { value, epoch: ctx.epoch, resurrections: ctx.resurrections, attempt: ctx.attempt };
  },
  send: async (_, ctx) => await ctx.send(sentTask, undefined, { id: `${ctx.id}-sent` }),
  endless: async (input, ctx) => {
    await note(pool, 'run', ctx);
    for (;;) appendFileSync(input.file, '.');
  },
  heeds: async (_, ctx) => {
    await aborted(ctx.signal);
    throw ctx.signal.reason;
  },
  ignores: async (_, ctx) => {
    await note(pool, 'run', ctx);
    if (ctx.epoch > 1) return { attempt: ctx.attempt, resurrections: ctx.resurrections };
    await new Promise(() => setInterval(() => undefined, 1_000));
  },
  soft: async (_, ctx) => {
    if (ctx.attempt === 2) return ctx.lastCheckpoint;
    const told = new Promise(resolve => softly.set(ctx, resolve));
    await aborted(ctx.softSignal);
    await told;
    throw new Error('too slow');
  },
  waits: async (_, ctx) => {
    await note(pool, 'run', ctx);
    await aborted(ctx.softSignal);
    return { heeded: true };
  },
  exits: () => process.exit(3),
  faults: () => process.kill(process.pid, 'SIGSEGV'),
  loose: () =>
    new Promise(() =>
      setTimeout(() => {
        throw new RangeError('nobody caught me');
      }, 5),
    ),
  fails: () => {
    throw new CardDeclined('declined');
  },
  discards: () => discard('nothing to do'),
  retries: (_, ctx) => (ctx.attempt === 1 ? retryIn('10ms', 'busy') : ctx.attempt),
  map: () => new Map(),
  circle: () => {
    const all = {};
    all.all = all;
    return all;
  },
  busy: (input, ctx) => {
    const endsAt = performance.now() + input.ms;
    while (performance.now() < endsAt);
    return { epoch: ctx.epoch, resurrections: ctx.resurrections };
  },
  hoard: async () => {
    (globalThis.hoarded ??= []).push(Buffer.alloc(80 * 1_048_576, 1));
    return place();
  },
  where: () => place(),
};

const input = z.looseObject({
  deed: z.string(),
  at: z
    .string()
    .transform(text => new Date(text))
    .optional(),
});

const handlerOf = (mode, options = {}) =>
  outlast.handler(task(`isolates.${mode}`, { input, result: unchecked(), queue, ...options }), {
    mode,
    maxResurrections: 1,
    retry: {
      maxAttempts: 2,
      backoff: '10ms',
      jitter: 'none',
      retryIf: error => !(error instanceof CardDeclined),
    },
    onSoftTimeout: async ctx => {
      await ctx.checkpoint({ isSame: softly.has(ctx) });
      softly.get(ctx)?.();
    },
    run: async (given, ctx) => await DEEDS[given.deed](given, ctx),
  });

const sentTask = task('isolates.sent', { queue });

export const sentHandler = outlast.handler(sentTask, async (_, ctx) => {
  await note(pool, 'run', ctx);
});
export const inlineHandler = handlerOf('inline');
export const threadHandler = handlerOf('thread');
export const processHandler = handlerOf('process');

/** Of duplicates one runs, in a thread. */
export const keyedHandler = outlast.handler(
  task('isolates.keyed', { input: unchecked(), result: unchecked(), queue, idempotent: true }),
  {
    mode: 'thread',
    run: async (_, ctx) => {
      await note(pool, 'run', ctx);
      return { ...place(), id: ctx.id };
    },
  },
);
