import { defineConfig } from 'outlast';

export default defineConfig({
  tasks: ['./handlers.mjs'],
  worker: {
    queues: ['chaos'],
    concurrency: 4,
    processes: 1,
    lease: '2s',
    beat: '300ms',
    shutdownTimeout: '1s',
  },
  resurrector: { interval: '100ms', batchSize: 1, afterDelay: '500ms' },
});
