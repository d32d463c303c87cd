import { resolveConfig } from '../config/config.ts';
import { loadConfig } from '../config/load-config.ts';
import { Events } from '../telemetry/events.ts';
import { createLogger } from '../telemetry/logger.ts';
import { embeddedDefaults } from '../wiring/embedded-defaults.ts';
import { createRuntime } from '../wiring/runtime.ts';
import { DEFAULT_PORT } from './default-port.ts';
import { startDevOn, type DevService } from './start-dev.ts';

export type { DevService } from './start-dev.ts';

export interface DevOptions {
  /** The config file. @default found upward from the working directory */
  readonly config?: string;
  /** Where the page is served, or on the next free port; 0: any. @default 4600 */
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
  const config = embeddedDefaults(
    resolveConfig(loaded.config, process.env, { folder: loaded.folder }),
  );
  const childLog = { level: 'info', json: false } as const;
  const write = (line: string): void => void process.stderr.write(line);
  const log = config.log ?? createLogger({ ...childLog, write, now: Date.now });
  const events = new Events((error, event) => log.error({ error, event }, 'a listener failed'));
  events.addAll(config.on);
  for (const warning of config.warnings) log.warn({}, warning);
  const context = { loaded, config, log, runtime: createRuntime(log, events.emit) };
  const { port = DEFAULT_PORT, signal } = options;
  return await startDevOn(context, { port, signal, childLog });
}
