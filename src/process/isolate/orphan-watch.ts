import { workerData } from 'node:worker_threads';

/** Kills its process when the parent is gone: a busy event loop would not notice that. */
const LOOK_MS = 250;
const parentPid = workerData as number;
setInterval(() => {
  if (process.ppid !== parentPid) process.kill(process.pid, 'SIGKILL');
}, LOOK_MS);
