// @ts-check
/** `work` asks twice a second at most; fetching and completing by hand is the fastest it offers. */
import { setTimeout as delay } from 'node:timers/promises';
import { PgBoss } from 'pg-boss';
import { note, ran } from './probe.mjs';

const QUEUE = process.env.BENCH_QUEUE ?? '';
const boss = new PgBoss({
  connectionString: process.env.BENCH_DATABASE_URL ?? '',
  supervise: false,
  schedule: false,
});
await boss.start();
note('loaded');
const stopping = new AbortController();
process.on('SIGTERM', () => stopping.abort());
while (!stopping.signal.aborted) {
  const jobs = await boss.fetch(QUEUE, { batchSize: 50 });
  await Promise.all(jobs.map(async () => ran()));
  if (jobs.length > 0)
    await boss.complete(
      QUEUE,
      jobs.map(({ id }) => id),
    );
  else await delay(50);
}
await boss.stop({ graceful: false });
process.exit(0);
