import { defineConfig } from 'outlast';

export default defineConfig({
  tasks: ['./handlers.mjs'],
  worker: {
    queues: [process.env.TORTURE_QUEUE],
    concurrency: 20,
    processes: 2,
    shutdownTimeout: '5s',
    // What happened to each task is counted when all of it is over.
    dedupWindow: '1d',
  },
});
