import { join } from 'node:path';
import { resolveConfig, type ResolvedConfig } from '../config/config.ts';
import { loadConfig } from '../config/load-config.ts';
import type { ResolvedWorkerOptions } from '../config/worker-options.ts';
import type { Runtime } from '../runtime/runtime.ts';
import type { Handler } from '../worker/handler.ts';
import { RoomPool } from '../worker/room-pool.ts';
import type { RoomMode } from '../worker/room.ts';
import type { Worker } from '../worker/worker.ts';
import type { HandlerSource } from './load-handlers.ts';
import { openRoom } from './open-room.ts';

const MODES: readonly RoomMode[] = ['thread', 'process'];
const MEBIBYTE = 1_048_576;

export interface RoomsParts {
  readonly handlers: ReadonlyMap<string, Handler>;
  /** Where threads and processes find them again; asked for only if there is one that needs it. */
  readonly source: () => Promise<HandlerSource> | HandlerSource;
  readonly settings: Pick<ResolvedWorkerOptions, 'maxIsolated' | 'maxMemoryMb'>;
  readonly runtime: Runtime;
}

export const isIsolated = (handler: Handler): boolean => handler.mode !== 'inline';

/**
 * Rooms for the handlers that want one, or null when none does. One room of each mode is opened at once: a handler that
 * cannot be found there is told now and not by the first task.
 */
export async function openRooms(parts: RoomsParts): Promise<RoomPool | null> {
  const { handlers, source, settings, runtime } = parts;
  const isolated = [...handlers.values()].filter(isIsolated);
  if (isolated.length === 0) return null;
  const spec = { handlers: await source(), parentPid: process.pid };
  const maxBytes = settings.maxMemoryMb * MEBIBYTE;
  const pool = new RoomPool({
    runtime,
    limit: settings.maxIsolated,
    open: mode => openRoom(mode, spec, runtime.log),
    isWornOut: room => maxBytes > 0 && room.rssBytes > maxBytes,
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
 * Where a worker inside somebody's own process looks for modules: in the config file that the command line would find,
 * for `tasks` of the instance or else of that file. A config that is an object only has its paths from the working folder.
 */
export async function findHandlerSource(config: ResolvedConfig): Promise<HandlerSource> {
  const { config: file, file: path, folder, loader } = await loadConfig();
  const tasks = config.tasks.length > 0 ? config.tasks : resolveConfig(file, process.env).tasks;
  return { patterns: tasks, base: path ?? join(folder, 'package.json'), loader, modules: [] };
}

/** The rooms of a worker end with it. */
export function withRooms(
  rooms: RoomPool | null,
  worker: Pick<Worker, 'run'>,
): Pick<Worker, 'run'> {
  return {
    run: async signal => {
      try {
        await worker.run(signal);
      } finally {
        await rooms?.close();
      }
    },
  };
}
