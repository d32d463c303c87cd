import { defineConfig } from 'outlast';

export default defineConfig({
  tasks: ['./handlers.mjs'],
  worker: { queues: ['torture'], concurrency: 20, processes: 2, shutdownTimeout: '5s' },
});
