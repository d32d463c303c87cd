import { encodeError } from '../errors/wire-error.ts';
import { takeKeys } from '../config/signing.ts';
import { loadConfig } from '../config/load-config.ts';
import { type Context, openContext } from '../context/context.ts';
import { sleep, systemClock } from '../runtime/runtime.ts';
import { stderrLogger } from '../telemetry/logger.ts';
import type { Handler } from '../worker/handler.ts';
import { type HandlerSource, handlerMap, loadHandlers, requireHandlers } from './load-handlers.ts';
import { isIsolated, openIsolates } from './isolate/isolates.ts';
import { LAST_WORDS_FD } from './how-it-ended.ts';
import { HeartbeatClient } from './heartbeat/heartbeat-client.ts';
import { workerGauges } from '../metrics/gauges.ts';
import { withMetrics } from './measure.ts';
import { watchLimits } from './watch-limits.ts';
import { makeWorker } from './worker-service.ts';
import { OneUnsent } from './health/one-unsent.ts';
import { PULSE_MS, healthOfWorker } from './health/worker-health.ts';
import { type FromChild, SPEC_ENV, type ToChild, type WorkerSpec } from './worker-spec.ts';

/** The entry of a worker process. It lives as long as its supervisor: when the channel closes it drains and exits. */
const CLOSE_GRACE_MS = 2_000;
// Before the config file and the handlers are loaded: processes they start do not inherit the keys.
takeKeys(process.env);
const spec = JSON.parse(process.env[SPEC_ENV] ?? 'null') as WorkerSpec;
const stop = new AbortController();
const retire = new AbortController();
const forceStop = new AbortController();
process.on('message', (message: ToChild) => {
  (message === 'drain' ? stop : retire).abort();
});
let isLoaded = false;
process.on('disconnect', () => {
  // Modules may wait forever while they load, and there is no run to give back yet.
  if (!isLoaded) process.exit(0);
  // A supervisor that exits in the middle of a drain got a second signal: runs are given back now.
  (stop.signal.aborted ? forceStop : stop).abort();
});
// The supervisor may have died while this file was loading: there is no second event for that.
if (!process.connected) process.exit(0);
// Ctrl-C reaches the whole process group; the supervisor alone decides, and sends us the order.
process.on('SIGINT', () => undefined);
process.on('SIGTERM', () => stop.abort());
// The reader of our log may have closed the pipe; that is no reason to drop tasks.
for (const stream of [process.stdout, process.stderr]) stream.on('error', () => undefined);

interface Loaded {
  readonly context: Context;
  readonly handlers: ReadonlyMap<string, Handler>;
  /** The modules that threads and processes load: those that export a handler for one. */
  readonly isolated: HandlerSource;
}

async function load(): Promise<Loaded> {
  const loaded = await loadConfig(
    spec.configFile === null
      ? { cwd: process.cwd(), loader: spec.loader.kind }
      : { file: spec.configFile, loader: spec.loader.kind },
  );
  const { folder } = loaded;
  const { loader, modules, worker } = spec;
  const context = openContext(loaded.config, {
    flags: { folder, worker },
    makeLog: level =>
      stderrLogger({ ...spec.log, level: spec.log.level ?? level ?? 'info' }, { pid: process.pid }),
    isWarned: true,
    embedded: 'join',
  });
  const { config } = context;
  const base = loaded.file ?? loaded.folder;
  const found = await loadHandlers({ patterns: config.tasks, base, loader, modules });
  const own = found.filter(({ handler }) => isIsolated(handler)).map(({ file }) => file);
  const isOurs = (file: string): boolean => modules.includes(file);
  const isolated = {
    patterns: [...new Set(own)].filter(file => !isOurs(file)),
    base,
    loader,
    modules: [...new Set(own)].filter(isOurs),
  };
  const files = new Map(found.map(({ handler, file }) => [handler, file]));
  const handlers = handlerMap([...files.keys()], handler => files.get(handler) ?? '');
  requireHandlers(handlers, config.tasks);
  return { context, handlers, isolated };
}

const send = (message: FromChild): Promise<void> =>
  new Promise(resolve => {
    // Without a supervisor there is no receiver.
    if (process.send) process.send(message, undefined, {}, () => resolve());
    else resolve();
  });

const giveUp = async (error: unknown): Promise<never> => {
  await send({ kind: 'unloadable', error: encodeError(error) });
  return process.exit(1);
};
const { context, handlers, isolated } = await load().catch(giveUp);
const { config, runtime, log } = context;
const settings = config.worker;
const isolates = await openIsolates({ handlers, source: () => isolated, settings, runtime }).catch(
  giveUp,
);
isLoaded = true;
await send({ kind: 'loaded', tasks: [...handlers.keys()] });
if (spec.isCheck === true) process.exit(0);
await context.stores();
let lastMessage = Promise.resolve();
const worker = makeWorker(context, {
  handlers,
  process: spec.process,
  // Another process holds an embedded database: the thread can connect to it just as this one does.
  heartbeat: () => new HeartbeatClient(config, log, LAST_WORDS_FD),
  isolates,
  onShutdown: () => void (lastMessage = send({ kind: 'dismissed' })),
  forceStop: forceStop.signal,
});
const wear = { tasks: () => worker.begun, rssBytes: () => process.memoryUsage.rss() };
const unwatch = watchLimits(
  config.worker,
  wear,
  systemClock,
  why => void send({ kind: 'worn', why }),
);
const measured = {
  process: 'worker',
  isServed: spec.isMeasured === true,
  gauges: workerGauges(() => worker.status),
  hasLedger: true as const,
};
await withMetrics(context, measured, async metrics => {
  const pulses = new OneUnsent(async () => {
    if (worker.status === null) return;
    const figures = spec.isMeasured && metrics ? { metrics: metrics.registry.snapshot() } : {};
    await send({ kind: 'pulse', health: healthOfWorker(worker.status), ...figures });
  });
  const pulse = setInterval(() => pulses.send(), PULSE_MS);
  await worker.run(stop.signal, retire.signal);
  clearInterval(pulse);
  await Promise.race([pulses.sendLast(), sleep(systemClock, CLOSE_GRACE_MS)]);
});
unwatch();
await isolates?.close();
// Nothing is lost by not deregistering from a store that does not answer.
await Promise.race([
  Promise.all([lastMessage, context.close()]),
  sleep(systemClock, CLOSE_GRACE_MS),
]);
// Handlers that ignored their signal, and pools of user modules, must not keep a drained process alive.
process.exit(0);
