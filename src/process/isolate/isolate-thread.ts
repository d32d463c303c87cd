import { parentPort, workerData } from 'node:worker_threads';
import { runIsolate } from './isolate-main.ts';
import type { IsolateSpec } from './isolate-spec.ts';

/** The entry of a thread in which handlers run. */
await runIsolate(workerData as IsolateSpec, {
  post: message => parentPort?.postMessage(message),
  listen: listener => void parentPort?.on('message', listener),
  rssBytes: () => 0,
});
