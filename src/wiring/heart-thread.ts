import { parentPort, workerData } from 'node:worker_threads';
import { PostgresLedger } from '../adapters/postgres/postgres-ledger.ts';
import { isUnavailable } from '../errors/error.ts';
import type { Ledger } from '../ledger/ledger.ts';
import { sleep, systemClock } from '../runtime/clock.ts';
import { faultPointFromEnv } from './fault-point-env.ts';
import {
  HEART_SLOTS,
  type FromHeart,
  type HeartTarget,
  type HeartThreadData,
} from './heart-data.ts';
import { openDatabase } from './stores.ts';

/**
 * The beat thread. It has a connection of its own and no work besides, so a busy event loop is not a death. The other
 * way round it must not keep a corpse alive: when the main loop has not turned for `maxBlockMs` it kills the process.
 */
const data = workerData as HeartThreadData;
const shared = new Float64Array(data.shared);
const say = (message: FromHeart): void => parentPort?.postMessage(message);
const faultPoint = faultPointFromEnv(process.env);
let worker = '';
let isBeating = false;
let lookedAt = systemClock.monotonic();

parentPort?.on('message', (next: string) => {
  worker = next;
});

// A beat that hangs in a lost network must not keep the next ones waiting.
const patienceMs = 2 * data.beatMs;
const ledger = await openLedger(data.target);
// Connects, where that is left to the first question: the first beat is sent without delay. What else is wrong there its
// worker finds out, and says.
await ledger.renew('').catch((error: unknown) => {
  if (isUnavailable(error)) throw error;
});

async function openLedger(target: HeartTarget): Promise<Pick<Ledger, 'renew'>> {
  if (target.kind === 'database') {
    const db = await openDatabase(target.database, {
      poolSize: 1,
      queryTimeoutMs: patienceMs,
      embedded: 'join',
      createIfMissing: false,
    });
    return new PostgresLedger(db);
  }
  const { url, ...options } = target.ledger;
  // Beats compare no generation: an incarnation that is not there says it all.
  const { openRedisLedger } = await import('../adapters/redis/open-redis-ledger.ts');
  const opened = await openRedisLedger(url, { ...options, generations: null });
  return opened.ledger;
}

async function beat(): Promise<void> {
  const sentAt = systemClock.monotonic();
  const forWorker = worker;
  const reply = await ledger.renew(forWorker);
  await faultPoint('heart.renewed');
  if (forWorker !== worker) return;
  const lastBeatAt = shared[HEART_SLOTS.lastBeatAt] ?? 0;
  // An answer that came late may be told after a later one.
  if (reply.status === 'open') shared[HEART_SLOTS.lastBeatAt] = Math.max(lastBeatAt, sentAt);
  say({ kind: 'beat', beat: { worker: forWorker, sentAt, reply } });
}

/** A process that was stopped as a whole wakes with an old tick: that is no stuck loop, the thread slept as well. */
function watchMainLoop(): void {
  const now = systemClock.monotonic();
  if (now - lookedAt > 3 * data.beatMs) shared[HEART_SLOTS.tickedAt] = now;
  lookedAt = now;
  const stuckMs = now - (shared[HEART_SLOTS.tickedAt] ?? now);
  if (stuckMs <= data.maxBlockMs) return;
  process.stderr.write(
    `worker:stuck the event loop has stood still for ${Math.round(stuckMs)} ms; killing ${process.pid}\n`,
  );
  process.kill(process.pid, 'SIGKILL');
}

setInterval(() => {
  watchMainLoop();
  if (isBeating || worker === '') return;
  isBeating = true;
  // A beat that fails is followed by the next one; whoever counts the lease looks at the last that was answered.
  const told = beat().catch((error: unknown) => say({ kind: 'failed', error: String(error) }));
  void Promise.race([told, sleep(systemClock, patienceMs)]).finally(() => {
    isBeating = false;
  });
}, data.beatMs);
say({ kind: 'ready' });
