import { defineConfig } from 'outlast';

const { CHAOS_OUTBOX_URL } = process.env;

export default defineConfig({
  tasks: ['./handlers.mjs'],
  ...(CHAOS_OUTBOX_URL === undefined ? {} : { outboxes: { crm: { database: CHAOS_OUTBOX_URL } } }),
  relay: { batchSize: 50, idleTime: '50ms', shutdownTimeout: '1s', staleTimeoutSeconds: 30 },
  worker: {
    queues: ['chaos'],
    concurrency: 4,
    processes: 1,
    lease: '2s',
    beat: '300ms',
    shutdownTimeout: '1s',
  },
  admission: { 'tenant:narrow': { concurrency: 1 } },
  resurrector: { interval: '100ms', batchSize: 1, afterDelay: '500ms' },
});
