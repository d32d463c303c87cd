// @ts-check
import { Worker } from 'bullmq';
import { note, ran } from './probe.mjs';

const { BENCH_REDIS_URL = '', BENCH_QUEUE = '', BENCH_CONCURRENCY = '50' } = process.env;
const { hostname: host, port, pathname } = new URL(BENCH_REDIS_URL);
const connection = { host, port: Number(port), db: Number(pathname.slice(1) || 0) };
const isHolding = process.env.BENCH_HOLD === 'yes';
const worker = new Worker(
  BENCH_QUEUE,
  async () => {
    ran();
    if (isHolding) await new Promise(() => undefined);
  },
  { connection, concurrency: Number(BENCH_CONCURRENCY) },
);
await worker.waitUntilReady();
note('loaded');
process.on('SIGTERM', () => void worker.close(isHolding).then(() => process.exit(0)));
