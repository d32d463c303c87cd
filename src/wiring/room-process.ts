import { Worker as Thread } from 'node:worker_threads';
import { encodeError } from '../errors/wire-error.ts';
import { runRoom } from './room-main.ts';
import { ROOM_ENV, type RoomMessage, type RoomSpec } from './room-spec.ts';

/** The entry of a process in which handlers run. It ends with the worker that started it: its runs are nobody's then. */
const spec = JSON.parse(process.env[ROOM_ENV] ?? 'null') as RoomSpec;
process.on('disconnect', () => process.exit(0));
if (!process.connected) process.exit(0);
// A handler that never lets go of the event loop does not hear of it; somebody else has to look.
const watch = new URL('./orphan-watch.js', import.meta.url);
new Thread(watch, { workerData: spec.parentPid, execArgv: [] }).unref();
// Signals reach the whole group of processes; the worker alone decides, and kills.
for (const signal of ['SIGINT', 'SIGTERM'] as const) process.on(signal, () => undefined);
for (const stream of [process.stdout, process.stderr]) stream.on('error', () => undefined);

const post = (message: RoomMessage): void => {
  // Whoever is not there any more cannot be told; the channel's end is our own.
  if (process.connected) process.send?.(message, undefined, {}, () => undefined);
};
process.on('uncaughtExceptionMonitor', error => post({ kind: 'dying', error: encodeError(error) }));
await runRoom(spec, {
  post,
  listen: hear => void process.on('message', hear),
  rssBytes: () => process.memoryUsage.rss(),
});
