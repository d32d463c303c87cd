// @ts-check
/** The handlers that `outlast worker` loads. */
import { setTimeout as delay } from 'node:timers/promises';
import { Pool } from 'pg';
import { createOutlast, fromPg, task, unchecked } from '../outlast.mjs';
import { note, ran } from './probe.mjs';

const pool = new Pool({ connectionString: process.env.BENCH_DATABASE_URL ?? '' });
const outlast = createOutlast({
  database: process.env.BENCH_DATABASE_URL ?? '',
  adapter: fromPg(pool),
});

note('loaded');

export const noop = outlast.handler(task('bench.noop', { input: unchecked() }), async () => ran());

/** Tells of each run. */
export const seen = outlast.handler(task('bench.seen', { input: unchecked() }), (_input, ctx) =>
  note('seen', ctx.id),
);

/** Holds its first run until that is over; the second is the one that was waited for. */
export const hold = outlast.handler(
  task('bench.hold', { input: unchecked() }),
  async (_input, ctx) => {
    note('run', ctx.id, ctx.resurrections);
    if (ctx.resurrections === 0) await delay(60_000, undefined, { signal: ctx.signal });
  },
);
