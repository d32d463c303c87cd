import { closeSync, openSync, utimesSync } from 'node:fs';
import type { Runtime } from '../../runtime/runtime.ts';
import { serveHealth, type Health, type MetricsPage } from './health-server.ts';

/** Where probes look. */
export interface ProbeOptions {
  /** Touched while it is alive. */
  readonly livenessFile: string | null;
  /** Answers `GET /health` and `GET /ready` with 200 or 503. */
  readonly healthPort: number | null;
  /** The address it listens on. */
  readonly healthHost: string;
  /** Left out: `GET /metrics` is not answered. */
  readonly metrics?: MetricsPage | null;
}

const TOUCH_MS = 1_000;

/** Serves the state of a service to probes as long as `fn` runs. */
export async function withProbes<T>(
  look: () => Health,
  { livenessFile, healthPort: port, healthHost: host, metrics = null }: ProbeOptions,
  runtime: Pick<Runtime, 'clock' | 'log'>,
  fn: () => Promise<T>,
): Promise<T> {
  const server = port === null ? null : await serveHealth(look, { host, port }, metrics);
  const stop = livenessFile === null ? null : touch(livenessFile, () => look().alive, runtime);
  try {
    return await fn();
  } finally {
    stop?.();
    server?.closeAllConnections();
    server?.close();
  }
}

function touch(
  file: string,
  isAlive: () => boolean,
  { clock, log }: Pick<Runtime, 'clock' | 'log'>,
): () => void {
  let cancel: () => void = () => undefined;
  const look = (): void => {
    try {
      if (isAlive()) touchNow(file, clock.now() / 1_000);
    } catch (error) {
      log.warn({ error, file }, 'the liveness file cannot be touched');
    }
    cancel = clock.timer(TOUCH_MS, look);
  };
  look();
  return () => cancel();
}

function touchNow(file: string, seconds: number): void {
  closeSync(openSync(file, 'a'));
  utimesSync(file, seconds, seconds);
}
