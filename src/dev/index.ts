import { loadConfig } from '../config/load-config.ts';
import { openContext } from '../context/context.ts';
import { stderrLogger } from '../telemetry/logger.ts';
import { DEFAULT_PORT } from './default-port.ts';
import { startDevOn, type DevService } from './start-dev.ts';

export type { DevService } from './start-dev.ts';

/** Options of `startDev`. */
export interface DevOptions {
  /** The config file. @default found upward from the working directory */
  readonly config?: string;
  /** The port of the page; the next free one if it is taken. 0: any. @default 4600 */
  readonly port?: number;
  /** Stops everything when it aborts. */
  readonly signal?: AbortSignal;
}

/**
 * `outlast dev` from code: database, relay, worker processes, recovery and a page.
 *
 * @example
 * const dev = await startDev({ signal: shutdownSignal() });
 * console.log(dev.address);
 * await dev.finished;
 */
export async function startDev(options: DevOptions = {}): Promise<DevService> {
  const loaded = await loadConfig({ file: options.config });
  const { folder } = loaded;
  const childLog = { level: null, json: false } as const;
  const context = openContext(loaded.config, {
    flags: { folder },
    makeLog: level => stderrLogger({ level: level ?? 'info', json: false }),
    embedded: 'own',
    migrates: true,
  });
  const { port = DEFAULT_PORT, signal } = options;
  return await startDevOn({ loaded, context }, { port, signal, childLog });
}
