import { pathToFileURL } from 'node:url';
import { encodeError } from '../adapters/remote/wire-error.ts';
import { resolveConfig, type ResolvedConfig } from '../config/config.ts';
import { createLoader, loadConfig, loadTaskModules } from '../config/load-config.ts';
import { sleep, systemClock } from '../runtime/clock.ts';
import { Events } from '../telemetry/events.ts';
import { createLogger } from '../telemetry/logger.ts';
import { isHandler, type Handler } from '../worker/handler.ts';
import { embeddedDefaults } from './embedded-defaults.ts';
import { brokerOptions } from './open-broker.ts';
import { createRuntime } from './runtime.ts';
import { handlerMap, makeWorker } from './services.ts';
import { openStores } from './stores.ts';
import { ThreadHeart } from './thread-heart.ts';
import { SPEC_ENV, type FromChild, type ToChild, type WorkerSpec } from './worker-spec.ts';

/** The entry of a worker process. It lives as long as its supervisor: when the channel closes it drains and exits. */
const CLOSE_PATIENCE_MS = 2_000;
const spec = JSON.parse(process.env[SPEC_ENV] ?? 'null') as WorkerSpec;
const stop = new AbortController();
process.on('message', (message: ToChild) => {
  if (message === 'drain') stop.abort();
});
process.on('disconnect', () => stop.abort());
// The supervisor may have died while this process was loading: nobody tells that a second time.
if (!process.connected) stop.abort();
// Ctrl-C reaches the whole group of processes; the supervisor alone decides, and tells us.
process.on('SIGINT', () => undefined);
process.on('SIGTERM', () => stop.abort());
// Whoever reads our log may have had enough; that is no reason to drop tasks.
for (const stream of [process.stdout, process.stderr]) stream.on('error', () => undefined);

async function loadHandlers(
  patterns: readonly string[],
  base: string,
): Promise<readonly Handler[]> {
  const loaded = await loadTaskModules(patterns, base, createLoader(spec.loader));
  const handlers = loaded.map(({ handler }) => handler as Handler);
  for (const file of spec.modules) {
    const exports = (await import(pathToFileURL(file).href)) as Record<string, unknown>;
    handlers.push(...Object.values(exports).filter(isHandler));
  }
  return handlers;
}

interface Loaded {
  readonly config: ResolvedConfig;
  readonly handlers: ReadonlyMap<string, Handler>;
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
  const handlers = handlerMap(await loadHandlers(config.tasks, loaded.file ?? loaded.folder));
  return { config, handlers };
}

const tell = (message: FromChild): Promise<void> =>
  new Promise(resolve => {
    // Without a supervisor nobody has to be told.
    if (process.send) process.send(message, undefined, {}, () => resolve());
    else resolve();
  });

const { config, handlers } = await load().catch(async (error: unknown) => {
  await tell({ kind: 'unloadable', error: encodeError(error) });
  return process.exit(1);
});
await tell({ kind: 'loaded' });
const log =
  config.log ??
  createLogger(
    { ...spec.log, write: line => void process.stderr.write(line), now: Date.now },
    { pid: process.pid },
  );
const events = new Events((error, event) => log.error({ error, event }, 'a listener failed'));
events.addAll(config.on);
const runtime = createRuntime(log, events.emit);
const stores = await openStores(config.database, {
  embedded: 'join',
  createIfMissing: false,
  ...brokerOptions(config, log),
});
const { beatMs, maxBlockMs } = config.worker;
const heart = new ThreadHeart({ target: config.database, beatMs, maxBlockMs, log });
let lastWords = Promise.resolve();
const worker = makeWorker({
  internals: { runtime, log },
  stores,
  config,
  handlers,
  process: spec.process,
  heart,
  onShutdown: () => void (lastWords = tell({ kind: 'retired' })),
});
await worker.run(stop.signal);
// Nothing is lost by not saying goodbye to a store that does not answer.
await Promise.race([
  Promise.all([lastWords, stores.close()]),
  sleep(systemClock, CLOSE_PATIENCE_MS),
]);
// Handlers that ignored their signal, and pools of user modules, must not keep a drained process alive.
process.exit(0);
