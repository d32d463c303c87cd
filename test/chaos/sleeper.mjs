// A worker process without a supervisor. The one that has a fault point waits and fails as its task says; others do not.
import { existsSync } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';
import { Pool } from 'pg';
import { createOutlast, startWorker, task, unchecked } from 'outlast';
import { fromPg } from 'outlast/pg';

const { SLEEPER_QUEUES, OUTLAST_DATABASE_URL, OUTLAST_FAULT_POINT } = process.env;
const isSleeper = OUTLAST_FAULT_POINT !== undefined;
const pool = new Pool({ connectionString: OUTLAST_DATABASE_URL, max: 5 });
pool.on('error', () => undefined);
const outlast = createOutlast({
  adapter: fromPg(pool),
  admission: { 'tenant:narrow': { concurrency: 1 } },
});

const note = (on, table, ctx) =>
  on.query(`insert into ${table} (task_id, name, epoch) values ($1, $2, $3)`, [
    ctx.id,
    ctx.name,
    ctx.epoch,
  ]);
const shape = { input: unchecked(), result: unchecked() };

const arrived = [];

/**
 * Both of a pair go on in the same tick, so that one call settles them. Until the file is there the event loop stands
 * still: no beat tells a run meanwhile what has become of its task.
 */
function together(file) {
  return new Promise(resolve => {
    if (arrived.push(resolve) < 2) return;
    while (!existsSync(file)) Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 20);
    for (const goOn of arrived.splice(0)) goOn();
  });
}

async function run(input, ctx) {
  await note(pool, 'run', ctx);
  if (input.fails && isSleeper) throw new Error('fails where it sleeps');
  if (input.waits && isSleeper) {
    await new Promise((_, reject) =>
      ctx.signal.addEventListener('abort', () => reject(new Error('aborted')), { once: true }),
    );
  }
  // Too large for the ledger: it is kept in the database and referred to.
  if (input.saves) await ctx.checkpoint('x'.repeat(300_000));
  if (input.isBare) await note(pool, 'effect', ctx);
  else await ctx.transaction(async tx => void (await note(tx, 'effect', ctx)));
  if (input.meets && isSleeper) await together(input.meets);
  if (input.heirWaits && !isSleeper) while (!existsSync(input.heirWaits)) await sleep(20);
  return { pid: process.pid };
}

/** Nothing else happens in the main thread meanwhile. */
function compute(ms) {
  const endsAt = performance.now() + ms;
  while (performance.now() < endsAt);
}

const worker = await startWorker(outlast, {
  tasks: [
    outlast.handler(task('sleep.effect', shape), { retry: { backoff: '20ms' }, run }),
    outlast.handler(task('sleep.keyed', { ...shape, idempotent: true }), {
      retry: { maxAttempts: 1 },
      run,
    }),
    outlast.handler(task('sleep.follow', shape), run),
    outlast.handler(task('sleep.compute', shape), {
      maxResurrections: 1,
      run: async (input, ctx) => {
        await note(pool, 'run', ctx);
        compute(input.ms ?? Infinity);
        return { pid: process.pid };
      },
    }),
  ],
  queues: SLEEPER_QUEUES.split(','),
  lease: '2s',
  beat: '300ms',
  shutdownTimeout: '1s',
});

process.on('SIGTERM', () => void worker.stop().then(() => process.exit(0)));
