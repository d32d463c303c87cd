import { Worker as Thread } from 'node:worker_threads';
import { encodeError } from '../../errors/wire-error.ts';
import { runIsolate } from './isolate-main.ts';
import { ISOLATE_ENV, type IsolateMessage, type IsolateSpec } from './isolate-spec.ts';

/** The entry of a process in which handlers run. It ends with the worker that started it: then no worker owns its runs. */
const spec = JSON.parse(process.env[ISOLATE_ENV] ?? 'null') as IsolateSpec;
process.on('disconnect', () => process.exit(0));
if (!process.connected) process.exit(0);
// A handler that blocks the event loop would not notice; a separate thread has to watch.
const watch = new URL('./orphan-watch.js', import.meta.url);
new Thread(watch, { workerData: spec.parentPid, execArgv: [] }).unref();
// Signals reach the whole process group; the worker alone decides, and kills.
for (const signal of ['SIGINT', 'SIGTERM'] as const) process.on(signal, () => undefined);
for (const stream of [process.stdout, process.stderr]) stream.on('error', () => undefined);

const post = (message: IsolateMessage): void => {
  // A parent that is gone cannot receive it; the closed channel ends this process.
  if (process.connected) process.send?.(message, undefined, {}, () => undefined);
};
process.on('uncaughtExceptionMonitor', error => post({ kind: 'dying', error: encodeError(error) }));
await runIsolate(spec, {
  post,
  listen: listener => void process.on('message', listener),
  rssBytes: () => process.memoryUsage.rss(),
});
