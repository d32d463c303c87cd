import { defineConfig } from 'outlast';

export default defineConfig({
  tasks: ['./handlers.mjs'],
  // A task that has begun here is never delivered to a worker of Python.
  broker: { url: process.env.FLEET_BROKER, ackOn: 'begin' },
  ledger: process.env.FLEET_BACKEND,
  celery: { defaultQueue: process.env.TORTURE_QUEUE },
  worker: { queues: [process.env.TORTURE_QUEUE], concurrency: 4, processes: 1 },
});
