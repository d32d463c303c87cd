import { isAbsolute, relative, sep } from 'node:path';
import { fileURLToPath } from 'node:url';
import type { OutboxTarget } from '../config/database-target.ts';
import { dialectRow, isEmbedded, requireLedger } from '../config/database-url.ts';
import { DATABASE_ENV } from '../config/from-env.ts';
import { isInMemory } from '../config/memory-folder.ts';
import type { LoadedConfig } from '../config/load-config.ts';
import { maskUrl } from '../errors/mask-secrets.ts';
import { startService, type Service } from '../runtime/runtime.ts';
import { preflight } from '../context/check-redis.ts';
import type { Context } from '../context/context.ts';
import { makeRelay } from '../process/relay-service.ts';
import { makeResurrector } from '../process/resurrector-service.ts';
import { makeSupervisor, type SuperviseOptions } from '../process/supervise.ts';
import type { ChildLog } from '../process/worker-spec.ts';
import { enterTier } from '../context/tier-memory.ts';
import type { Supervisor } from '../worker/supervisor.ts';
import { checkPort } from './listen.ts';
import { reloadOnChange, type Reload } from './reload.ts';
import type { SnapshotSource } from './read-snapshot.ts';
import { servePage, type Page } from './serve-page.ts';
import { Shop } from './shop/shop.ts';

/** `outlast dev` while it runs. */
export interface DevService extends Service {
  /** The address of the page: `http://127.0.0.1:4600`. */
  readonly address: string;
}

/** What `dev` runs on: the config file, and a context that serves its database and creates its tables. */
export interface DevContext {
  readonly loaded: LoadedConfig;
  readonly context: Context;
}

export interface DevSettings {
  readonly port: number;
  readonly signal?: AbortSignal | undefined;
  /** The log options of the worker processes. */
  readonly childLog: ChildLog;
}

/** The sample shop has one worker more than it needs, so that a task comes back on another process. */
const SHOP_PROCESSES = 2;

/**
 * Opens the database, creates its tables and runs relay, workers, recovery and the page on it. One
 * process holds an embedded database; its worker processes reach it over a loopback socket.
 */
export async function startDevOn(dev: DevContext, settings: DevSettings): Promise<DevService> {
  const port = checkPort(settings.port);
  const { context } = dev;
  const { config, log, runtime } = context;
  const database = nameOf(requireLedger(config.database));
  log.info({}, `opening ${database}`);
  try {
    await preflight(context);
    const stores = await context.stores();
    await enterTier(context);
    const shop = config.tasks.length === 0 ? await Shop.open(context) : null;
    const options = childOptions(dev, settings);
    const supervisor = await makeSupervisor(context, options);
    let isDraining = false;
    const source: SnapshotSource = {
      outboxReads: stores.outboxReads,
      reads: stores.reads,
      ledgerReads: stores.ledgerReads,
      database,
      shop,
      isRedacted: config.redact !== null,
      children: () => supervisor.children,
      isDraining: () => isDraining,
    };
    const page = await servePage({ source, stores, port, clock: runtime.clock, log });
    if (port !== 0 && page.port !== port) {
      log.warn({}, `port ${port} is taken, using ${page.port}`);
    }
    const service = startService(async signal => {
      signal.addEventListener('abort', () => {
        isDraining = true;
        page.hint();
      });
      // The sample shop is a part of this package.
      const reload = shop === null ? reloadOnChange({ ...dev, supervisor, options }) : null;
      await runDev({ context, supervisor, page, reload }, signal);
    }, settings.signal);
    return { ...service, address: page.address };
  } catch (error) {
    await context.close();
    throw error;
  }
}

/** As a person calls it: without a password, and as short as it is unmistakable. */
function nameOf(target: OutboxTarget): string {
  if (!isEmbedded(target)) return maskUrl(target.url);
  if (isInMemory(target)) return `${dialectRow(target).title} in memory`;
  const path = relative(process.cwd(), target.folder);
  const isInside = path !== '' && !path.startsWith('..') && !isAbsolute(path);
  return `${dialectRow(target).title} in ${isInside ? `.${sep}${path}` : target.folder}`;
}

interface DevParts {
  readonly context: Context;
  readonly supervisor: Supervisor;
  readonly page: Page;
  readonly reload: Reload | null;
}

/**
 * Runs until the signal, or until a part fails for good. The database is closed last: draining
 * children write to it what they finished and what they give back.
 */
async function runDev(
  { context, supervisor, page, reload }: DevParts,
  signal: AbortSignal,
): Promise<void> {
  const broken = new AbortController();
  const either = AbortSignal.any([signal, broken.signal]);
  const parts = [makeRelay(context), makeResurrector(context), supervisor];
  const running = parts.map(part =>
    part.run(either).catch((error: unknown) => {
      context.log.error({ error }, 'a service broke for good');
      broken.abort();
      throw error;
    }),
  );
  try {
    await Promise.allSettled(running);
    await Promise.all(running);
  } finally {
    reload?.close();
    await page.close();
    await context.close();
  }
}

function childOptions({ loaded, context }: DevContext, settings: DevSettings): SuperviseOptions {
  const { config } = context;
  const hasShop = config.tasks.length === 0;
  const handlers = fileURLToPath(new URL('./shop/handlers.js', import.meta.url));
  const spec = {
    configFile: loaded.file,
    loader: loaded.loader,
    modules: hasShop ? [handlers] : [],
    worker: {},
    log: settings.childLog,
  };
  // The shop's handlers have no config of their own that names the database.
  const env: Record<string, string> = hasShop ? { [DATABASE_ENV]: config.database.url } : {};
  const isChosen = config.settings['worker.processes']?.source !== 'default';
  const processes = hasShop && !isChosen ? { processes: SHOP_PROCESSES } : {};
  return { spec, env, ...processes };
}
