import { existsSync } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';
import pg from 'pg';
import { createOutlast, task, unchecked } from 'outlast';
import { fromPg } from 'outlast/pg';
import config from './outlast.config.mjs';

const pool = new pg.Pool({ connectionString: process.env.OUTLAST_DATABASE_URL, max: 5 });
pool.on('error', () => undefined);
const outlast = createOutlast({ ...config, adapter: fromPg(pool) });
const queue = 'chaos';

const note = (tx, table, ctx) =>
  tx.query(`insert into ${table} (task_id, epoch, pid) values ($1, $2, $3)`, [
    ctx.id,
    ctx.epoch,
    process.pid,
  ]);

/** Has its effect through the door, once, whatever dies. `fails`: throws the first time. `waits`: the first run holds until aborted. `until`: those after it, for a file. */
export const effectHandler = outlast.handler(
  task('chaos.effect', { input: unchecked(), result: unchecked(), queue }),
  {
    retry: { backoff: '20ms' },
    run: async (input, ctx) => {
      await note(pool, 'run', ctx);
      if (input.fails && ctx.attempt === 1) throw new Error('the first time');
      if (input.waits && ctx.resurrections === 0 && ctx.epoch === 1) {
        await new Promise((_, reject) =>
          ctx.signal.addEventListener('abort', () => reject(new Error('aborted')), { once: true }),
        );
      }
      while (input.until && !existsSync(input.until)) await sleep(20);
      // Too large for the ledger: it is kept in the database and referred to.
      if (input.saves) await ctx.checkpoint('x'.repeat(300_000));
      await ctx.transaction(async tx => void (await note(tx, 'effect', ctx)));
      return { epoch: ctx.epoch };
    },
  },
);

export const followHandler = outlast.handler(
  task('chaos.follow', { input: unchecked(), queue }),
  async (_, ctx) => {
    await ctx.transaction(async tx => void (await note(tx, 'effect', ctx)));
  },
);

/** Of duplicates one has its effect. `stages`: its first runs stop before, inside and after it. `fails`: until one is dead. */
export const keyedHandler = outlast.handler(
  task('chaos.keyed', { input: unchecked(), result: unchecked(), queue, idempotent: true }),
  {
    maxResurrections: 20,
    retry: { maxAttempts: 1 },
    run: async (input, ctx) => {
      await note(pool, 'run', ctx);
      if (input.fails) {
        const dead = `select 1 from outlast_task where name = 'chaos.keyed' and state = 'dead'`;
        if ((await pool.query(dead)).rowCount === 0) throw new Error('no good');
      }
      const { rowCount } = await pool.query('select 1 from run where task_id = $1', [ctx.id]);
      const stopAt = async stage => {
        if (input.stages && rowCount === stage) await new Promise(() => undefined);
      };
      await stopAt(1);
      await ctx.transaction(async tx => {
        await note(tx, 'effect', ctx);
        await stopAt(2);
      });
      await stopAt(3);
      return { id: ctx.id, epoch: ctx.epoch };
    },
  },
);

/** Never comes back by itself: only the beat thread can end this. */
export const endlessHandler = outlast.handler(
  task('chaos.endless', { input: unchecked(), queue }),
  {
    maxResurrections: 1,
    run: async (_, ctx) => {
      await note(pool, 'run', ctx);
      for (;;);
    },
  },
);

/** Says when it was there: three of these may run at once, wherever. */
export const crowdHandler = outlast.handler(
  task('chaos.crowd', { input: unchecked(), queue, admission: { concurrency: 3 } }),
  async (_, ctx) => {
    await note(pool, 'run', ctx);
    await new Promise(resolve => setTimeout(resolve, 40));
    await note(pool, 'effect', ctx);
  },
);
