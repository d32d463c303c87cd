import { parentPort, workerData } from 'node:worker_threads';
import { runRoom } from './room-main.ts';
import type { RoomSpec } from './room-spec.ts';

/** The entry of a thread in which handlers run. */
await runRoom(workerData as RoomSpec, {
  post: message => parentPort?.postMessage(message),
  listen: hear => void parentPort?.on('message', hear),
  rssBytes: () => 0,
});
