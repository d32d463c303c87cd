import pg from 'pg';
import { createOutlast, task, unchecked } from 'outlast';
import { fromPg } from 'outlast/pg';
import config from './outlast.config.mjs';

const pool = new pg.Pool({ connectionString: process.env.OUTLAST_DATABASE_URL, max: 10 });
pool.on('error', () => undefined);
const outlast = createOutlast({ ...config, adapter: fromPg(pool) });

const queue = process.env.TORTURE_QUEUE;
const effect = task('torture.effect', { input: unchecked(), result: unchecked(), queue });
const follow = task('torture.follow', { input: unchecked(), queue });

const wait = ms => new Promise(resolve => setTimeout(resolve, ms));

/** Says that it runs, works a little, has its effect through the fenced door; fails now and then. */
export const effectHandler = outlast.handler(effect, {
  retry: { maxAttempts: 50, backoff: '50ms', maxBackoff: '500ms' },
  maxResurrections: 50,
  run: async (input, ctx) => {
    await pool.query('insert into led_exec (task_id, epoch, pid) values ($1, $2, $3)', [
      ctx.id,
      ctx.epoch,
      process.pid,
    ]);
    await wait(Math.random() * input.workMs);
    if (Math.random() < 0.05) throw new Error('now and then');
    await ctx.transaction(async tx => {
      await tx.query('insert into led_effect (task_id, epoch) values ($1, $2)', [
        ctx.id,
        ctx.epoch,
      ]);
      await wait(Math.random() * 5);
      if (input.follows) await outlast.send(tx, follow, { parent: ctx.id });
    });
    await wait(Math.random() * 5);
    return { n: input.n };
  },
});

export const followHandler = outlast.handler(follow, {
  maxResurrections: 50,
  run: async (input, ctx) => {
    await ctx.transaction(tx =>
      tx
        .query('insert into led_follow (parent, task_id) values ($1, $2)', [input.parent, ctx.id])
        .then(() => null),
    );
  },
});
