import { encodeError } from '../errors/wire-error.ts';
import { resolveConfig, type ResolvedConfig } from '../config/config.ts';
import { loadConfig } from '../config/load-config.ts';
import { sleep, systemClock } from '../runtime/clock.ts';
import { Events } from '../telemetry/events.ts';
import { createLogger } from '../telemetry/logger.ts';
import type { Handler } from '../worker/handler.ts';
import { embeddedDefaults } from './embedded-defaults.ts';
import { handlerMap } from './handler-map.ts';
import { loadHandlers, type HandlerSource } from './load-handlers.ts';
import { messagingOf } from './messaging.ts';
import { isIsolated, openRooms } from './rooms.ts';
import { createRuntime } from './runtime.ts';
import { makeWorker } from './services.ts';
import { openStores } from './stores.ts';
import { ThreadHeart } from './thread-heart.ts';
import { watchLimits } from './watch-limits.ts';
import { healthOfWorker, PULSE_MS } from './worker-health.ts';
import { SPEC_ENV, type FromChild, type ToChild, type WorkerSpec } from './worker-spec.ts';

/** The entry of a worker process. It lives as long as its supervisor: when the channel closes it drains and exits. */
const CLOSE_PATIENCE_MS = 2_000;
const spec = JSON.parse(process.env[SPEC_ENV] ?? 'null') as WorkerSpec;
const stop = new AbortController();
const retire = new AbortController();
const hurry = new AbortController();
process.on('message', (message: ToChild) => {
  (message === 'drain' ? stop : retire).abort();
});
// A supervisor that leaves in the middle of a drain was told twice to end: what still runs is given back now.
process.on('disconnect', () => (stop.signal.aborted ? hurry : stop).abort());
// The supervisor may have died while this process was loading: nobody tells that a second time.
if (!process.connected) stop.abort();
// Ctrl-C reaches the whole group of processes; the supervisor alone decides, and tells us.
process.on('SIGINT', () => undefined);
process.on('SIGTERM', () => stop.abort());
// Whoever reads our log may have had enough; that is no reason to drop tasks.
for (const stream of [process.stdout, process.stderr]) stream.on('error', () => undefined);

interface Loaded {
  readonly config: ResolvedConfig;
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
  const config = embeddedDefaults(
    resolveConfig(loaded.config, process.env, { folder: loaded.folder, worker: spec.worker }),
  );
  const { loader, modules } = spec;
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
  return { config, handlers, isolated };
}

const tell = (message: FromChild): Promise<void> =>
  new Promise(resolve => {
    // Without a supervisor nobody has to be told.
    if (process.send) process.send(message, undefined, {}, () => resolve());
    else resolve();
  });

const giveUp = async (error: unknown): Promise<never> => {
  await tell({ kind: 'unloadable', error: encodeError(error) });
  return process.exit(1);
};
const { config, handlers, isolated } = await load().catch(giveUp);
const log =
  config.log ??
  createLogger(
    { ...spec.log, write: line => void process.stderr.write(line), now: Date.now },
    { pid: process.pid },
  );
const events = new Events((error, event) => log.error({ error, event }, 'a listener failed'));
events.addAll(config.on);
const runtime = createRuntime(log, events.emit);
const settings = config.worker;
const rooms = await openRooms({ handlers, source: () => isolated, settings, runtime }).catch(
  giveUp,
);
await tell({ kind: 'loaded' });
const stores = await openStores(config.database, {
  embedded: 'join',
  createIfMissing: false,
  ...messagingOf(config, log),
});
const heart = new ThreadHeart(config, log);
let lastWords = Promise.resolve();
const worker = makeWorker({
  internals: { runtime, log },
  stores,
  config,
  handlers,
  process: spec.process,
  heart,
  rooms,
  onShutdown: () => void (lastWords = tell({ kind: 'dismissed' })),
  hurry: hurry.signal,
});
const wear = { tasks: () => worker.begun, rssBytes: () => process.memoryUsage.rss() };
const unwatch = watchLimits(
  config.worker,
  wear,
  systemClock,
  why => void tell({ kind: 'worn', why }),
);
const pulse = setInterval(() => {
  if (worker.status !== null) void tell({ kind: 'pulse', health: healthOfWorker(worker.status) });
}, PULSE_MS);
await worker.run(stop.signal, retire.signal);
clearInterval(pulse);
unwatch();
await rooms?.close();
// Nothing is lost by not saying goodbye to a store that does not answer.
await Promise.race([
  Promise.all([lastWords, stores.close()]),
  sleep(systemClock, CLOSE_PATIENCE_MS),
]);
// Handlers that ignored their signal, and pools of user modules, must not keep a drained process alive.
process.exit(0);
