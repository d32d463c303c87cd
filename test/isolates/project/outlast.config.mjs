import { defineConfig } from 'outlast';

export default defineConfig({
  tasks: ['./handlers.mjs'],
  worker: {
    queues: ['isolates'],
    concurrency: 8,
    maxIsolated: 2,
    lease: '3s',
    beat: '500ms',
    idleTime: '200ms',
    shutdownTimeout: '1s',
  },
  resurrector: { interval: '100ms' },
});
