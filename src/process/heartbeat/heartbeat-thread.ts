import { writeSync } from 'node:fs';
import { parentPort, workerData } from 'node:worker_threads';
import { isUnavailable } from '../../errors/error.ts';
import { type BackoffPolicy, backoffMs } from '../../runtime/backoff.ts';
import { processFaultPoint, sleep, systemClock } from '../../runtime/runtime.ts';
import { type HeartbeatLink, HedgedHeartbeat } from '../../worker/lease/hedged-heartbeat.ts';
import { FULL_HEAP, LAST_WORDS } from '../how-it-ended.ts';
import { type FromHeartbeat, HEARTBEAT_SLOTS, type HeartbeatThreadData } from './heartbeat-data.ts';
import { openHeartbeatLink } from '../../context/openers.ts';

/**
 * The heartbeat thread. It has its own connection and no other work, so a busy event loop does not look like a death; a
 * second connection takes over when the first falls silent. Conversely it must not keep a stuck process alive: when the main
 * loop has not turned for `maxBlockMs` it kills the process.
 */
const data = workerData as HeartbeatThreadData;
/** A store that is away when the thread starts is asked again, not hammered. */
const RECONNECT: BackoffPolicy = { baseMs: 100, maxMs: 2_000, jitter: 'full' };
const shared = new Float64Array(data.shared);
const send = (message: FromHeartbeat): void => parentPort?.postMessage(message);
const faultPoint = processFaultPoint();
let worker = '';
let isBeating = false;
let lookedAt = systemClock.monotonic();

parentPort?.on('message', (next: string) => {
  worker = next;
});

// A beat that hangs in a lost network must not delay the next ones.
const openLink = (): Promise<HeartbeatLink> => openHeartbeatLink(data.target, 2 * data.beatMs);
const heartbeat = new HedgedHeartbeat(openLink, systemClock, data);
await connect();

/**
 * Connects now, if the link connects lazily, so that the first beat is sent without delay. A store that is away is no reason
 * to end: it is asked again until it answers. The worker finds and reports any other error there.
 */
async function connect(): Promise<void> {
  for (let failures = 0; ; failures++) {
    try {
      await heartbeat.renew('');
      return;
    } catch (error) {
      if (!isUnavailable(error)) return;
      send({ kind: 'failed', error: String(error) });
      await sleep(systemClock, backoffMs(RECONNECT, failures, Math.random()));
    }
  }
}

async function beat(): Promise<void> {
  const forWorker = worker;
  const { reply, sentAt } = await heartbeat.renew(forWorker);
  await faultPoint('heartbeat.renewed');
  if (forWorker !== worker) return;
  const lastBeatAt = shared[HEARTBEAT_SLOTS.lastBeatAt] ?? 0;
  // A late reply may be reported after a later one.
  if (reply.status === 'open') shared[HEARTBEAT_SLOTS.lastBeatAt] = Math.max(lastBeatAt, sentAt);
  send({ kind: 'beat', beat: { worker: forWorker, sentAt, reply } });
}

/** A process that was stopped as a whole wakes with an old tick: that is no stuck loop, the thread slept as well. */
function watchMainLoop(): void {
  const now = systemClock.monotonic();
  if (now - lookedAt > 3 * data.beatMs) shared[HEARTBEAT_SLOTS.tickedAt] = now;
  lookedAt = now;
  const stuckMs = now - (shared[HEARTBEAT_SLOTS.tickedAt] ?? now);
  if (stuckMs <= data.maxBlockMs) return;
  sayLast(`${LAST_WORDS.stuck} ${Math.round(stuckMs)}`);
  process.stderr.write(
    `worker:stuck the event loop has stood still for ${Math.round(stuckMs)} ms; killing ${process.pid}\n`,
  );
  process.kill(process.pid, 'SIGKILL');
}

/** To the supervisor, at once: the process may end at any moment, and nobody else can say why. */
function sayLast(words: string): void {
  if (data.lastWordsFd === null) return;
  try {
    writeSync(data.lastWordsFd, `${words}\n`);
  } catch {
    // A supervisor that is gone reads nothing; a pipe that is full has been told enough.
  }
}

let isFull = false;
/** Of an abort nobody else knows whether memory was the cause. */
function watchHeap(): void {
  const isFullNow = process.memoryUsage.rss() > FULL_HEAP * data.heapBytes;
  if (isFullNow && !isFull) sayLast(LAST_WORDS.full);
  isFull = isFullNow;
}

setInterval(() => {
  watchMainLoop();
  watchHeap();
  if (isBeating || worker === '') return;
  isBeating = true;
  // A beat that fails is followed by the next one; the lease is counted from the last answered beat.
  const sent = beat().catch((error: unknown) => send({ kind: 'failed', error: String(error) }));
  void sent.finally(() => {
    isBeating = false;
  });
}, data.beatMs);
send({ kind: 'ready' });
