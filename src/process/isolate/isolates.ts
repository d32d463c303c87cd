import { join } from 'node:path';
import { resolveConfig, type ResolvedConfig } from '../../config/config.ts';
import { chooseLoaderFor } from '../../config/choose-loader.ts';
import { loadConfig } from '../../config/load-config.ts';
import type { ResolvedWorkerOptions } from '../../config/worker-options.ts';
import type { Runtime } from '../../runtime/runtime.ts';
import type { Handler } from '../../worker/handler.ts';
import { IsolatePool } from '../../worker/isolate/isolate-pool.ts';
import type { IsolateMode } from '../../worker/isolate/isolate.ts';
import type { HandlerSource } from '../load-handlers.ts';
import { openIsolate } from './open-isolate.ts';

const MODES: readonly IsolateMode[] = ['thread', 'process'];
const MEBIBYTE = 1_048_576;

export interface IsolatesParts {
  readonly handlers: ReadonlyMap<string, Handler>;
  /** Where threads and processes load the handlers from; called only if a handler needs an isolate. */
  readonly source: () => Promise<HandlerSource> | HandlerSource;
  readonly settings: Pick<ResolvedWorkerOptions, 'maxIsolated' | 'maxMemoryMb' | 'isolateKeys'>;
  readonly runtime: Runtime;
}

export const isIsolated = (handler: Handler): boolean => handler.mode !== 'inline';

/**
 * Isolates for the handlers that want one, or null when none does. One isolate of each mode is opened at once: a handler that
 * cannot be found there is reported now and not by the first task.
 */
export async function openIsolates(parts: IsolatesParts): Promise<IsolatePool | null> {
  const { handlers, source, settings, runtime } = parts;
  const isolated = [...handlers.values()].filter(isIsolated);
  if (isolated.length === 0) return null;
  const spec = { handlers: await source(), parentPid: process.pid };
  const hasKeys = settings.isolateKeys === 'on';
  const maxBytes = settings.maxMemoryMb * MEBIBYTE;
  const pool = new IsolatePool({
    runtime,
    limit: settings.maxIsolated,
    open: mode => openIsolate(mode, spec, { log: runtime.log, clock: runtime.clock, hasKeys }),
    isWornOut: isolate => maxBytes > 0 && isolate.rssBytes > maxBytes,
  });
  try {
    await Promise.all(
      MODES.map(async mode => {
        const own = isolated.filter(handler => handler.mode === mode);
        const names = own.map(({ task }) => task.name);
        if (names.length > 0) await pool.prepare(mode, names);
      }),
    );
    return pool;
  } catch (error) {
    await pool.close();
    throw error;
  }
}

/**
 * Where a worker embedded in an application process looks for modules: in the config file that the command line would find,
 * for `tasks` of the instance or else of that file. A config given only as an object resolves its paths from the working folder.
 */
export async function findHandlerSource(config: ResolvedConfig): Promise<HandlerSource> {
  const { config: file, file: path, folder, loader } = await loadConfig();
  const tasks = config.tasks.length > 0 ? config.tasks : resolveConfig(file, process.env).tasks;
  const base = path ?? join(folder, 'package.json');
  const kind = path === null ? await chooseLoaderFor(tasks, base) : loader.kind;
  return { patterns: tasks, base, loader: { kind, base }, modules: [] };
}
