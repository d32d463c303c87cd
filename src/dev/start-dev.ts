import { isAbsolute, relative, sep } from 'node:path';
import { fileURLToPath } from 'node:url';
import { maskUrl, type ResolvedConfig } from '../config/config.ts';
import { requireLedger, type DatabaseTarget } from '../config/database-url.ts';
import { DATABASE_ENV } from '../config/from-env.ts';
import type { LoadedConfig } from '../config/load-config.ts';
import type { Runtime } from '../runtime/runtime.ts';
import { startService, type Service } from '../runtime/service.ts';
import type { Logger, LogLevel } from '../telemetry/logger.ts';
import { preflight } from '../wiring/check-redis.ts';
import { messagingOf } from '../wiring/messaging.ts';
import { makeRelay, makeResurrector } from '../wiring/services.ts';
import { migrate, openDatabase, storesOn, type Stores } from '../wiring/stores.ts';
import { makeSupervisor } from '../wiring/supervise.ts';
import type { Supervisor } from '../worker/supervisor.ts';
import { checkPort } from './listen.ts';
import type { SnapshotSource } from './read-snapshot.ts';
import { servePage, type Page } from './serve-page.ts';
import { Shop } from './shop/shop.ts';

/** `outlast dev` while it runs. */
export interface DevService extends Service {
  /** Where the page is: `http://127.0.0.1:4600`. */
  readonly address: string;
}

/** What `dev` runs on, read from the config file, the environment and the flags. */
export interface DevContext {
  readonly loaded: LoadedConfig;
  readonly config: ResolvedConfig;
  readonly runtime: Runtime;
  readonly log: Logger;
}

export interface DevSettings {
  readonly port: number;
  readonly signal?: AbortSignal | undefined;
  /** How the worker processes log. */
  readonly childLog: { readonly level: LogLevel; readonly json: boolean };
}

/** The sample shop has one worker more than it needs, so that a task comes back on another process. */
const SHOP_PROCESSES = 2;

/**
 * Opens the database, makes its tables and runs relay, workers, recovery and the page on it. One
 * process holds an embedded database; its worker processes reach it over a loopback socket.
 */
export async function startDevOn(given: DevContext, settings: DevSettings): Promise<DevService> {
  const port = checkPort(settings.port);
  const context = { ...given, config: devDefaults(given.config) };
  const { config, log } = context;
  const target = requireLedger(config.database);
  const database = nameOf(target);
  log.info({}, `opening ${database}`);
  await preflight(config, log);
  const db = await openDatabase(target, { embedded: 'own', createIfMissing: true });
  try {
    await migrate(db);
    const stores = await storesOn(db, messagingOf(config, log));
    const shop = config.tasks.length === 0 ? await Shop.open(stores, log) : null;
    const supervisor = superviseDev(context, settings, stores);
    let isDraining = false;
    const source: SnapshotSource = {
      db,
      reads: stores.reads,
      ledgerReads: stores.ledgerReads,
      database,
      shop,
      children: () => supervisor.children,
      isDraining: () => isDraining,
    };
    const page = await servePage({ source, stores, port, clock: context.runtime.clock, log });
    if (port !== 0 && page.port !== port) {
      log.warn({}, `port ${port} is taken, using ${page.port}`);
    }
    const service = startService(async signal => {
      signal.addEventListener('abort', () => {
        isDraining = true;
        page.hint();
      });
      await runDev({ context, stores, supervisor, page }, signal);
    }, settings.signal);
    return { ...service, address: page.address };
  } catch (error) {
    await db.close();
    throw error;
  }
}

/** As a person calls it: without a password, and as short as it is unmistakable. */
function nameOf(target: DatabaseTarget): string {
  if (target.kind === 'postgres') return maskUrl(target.url);
  const path = relative(process.cwd(), target.folder);
  const isInside = path !== '' && !path.startsWith('..') && !isAbsolute(path);
  return `PGlite in ${isInside ? `.${sep}${path}` : target.folder}`;
}

interface DevParts {
  readonly context: DevContext;
  readonly stores: Stores;
  readonly supervisor: Supervisor;
  readonly page: Page;
}

/**
 * Runs until the signal, or until a part breaks for good. The database is closed last: draining
 * children tell it what they finished and what they give back.
 */
async function runDev(parts: DevParts, signal: AbortSignal): Promise<void> {
  const { context, stores, supervisor, page } = parts;
  const { config, runtime, log } = context;
  const broken = new AbortController();
  const either = AbortSignal.any([signal, broken.signal]);
  const relay = makeRelay({
    stores,
    outboxTarget: null,
    runtime,
    config,
  });
  const resurrector = makeResurrector({ stores, config, runtime });
  const running = [relay, resurrector, supervisor].map(part =>
    part.run(either).catch((error: unknown) => {
      log.error({ error }, 'a service broke for good');
      broken.abort();
      throw error;
    }),
  );
  try {
    await Promise.allSettled(running);
    await Promise.all(running);
  } finally {
    await page.close();
    await stores.close();
  }
}

/** The shop's workers, unless the user has chosen how many. */
function devDefaults(config: ResolvedConfig): ResolvedConfig {
  const isChosen = config.settings['worker.processes']?.source !== 'default';
  if (config.tasks.length > 0 || isChosen) return config;
  return { ...config, worker: { ...config.worker, processes: SHOP_PROCESSES } };
}

function superviseDev(context: DevContext, settings: DevSettings, stores: Stores): Supervisor {
  const { loaded, config, runtime } = context;
  const hasShop = config.tasks.length === 0;
  const handlers = fileURLToPath(new URL('./shop/handlers.js', import.meta.url));
  const spec = {
    configFile: loaded.file,
    loader: loaded.loader,
    modules: hasShop ? [handlers] : [],
    worker: {},
    log: settings.childLog,
  };
  // The shop's handlers have no config of their own to find the database by.
  const env: Record<string, string> = hasShop ? { [DATABASE_ENV]: config.database.url } : {};
  return makeSupervisor({ stores, config, runtime, spec, env });
}
