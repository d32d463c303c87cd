// @ts-check
/** With its local queue and its batches of completions: the fastest it offers. */
import { run } from 'graphile-worker';
import { note, ran } from './probe.mjs';

const runner = await run({
  preset: {
    worker: {
      connectionString: process.env.BENCH_DATABASE_URL ?? '',
      concurrentJobs: 50,
      maxPoolSize: 10,
      localQueue: { size: 100 },
      completeJobBatchDelay: 0,
      failJobBatchDelay: 0,
    },
  },
  noHandleSignals: true,
  taskList: { noop: async () => ran() },
});
note('loaded');
process.on('SIGTERM', () => void runner.stop().then(() => process.exit(0)));
