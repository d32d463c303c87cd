import { closeSync, openSync, utimesSync } from 'node:fs';
import { createServer, type Server } from 'node:http';
import { once } from 'node:events';
import { outlastError } from '../errors/error.ts';
import type { Runtime } from '../runtime/runtime.ts';

/** Where probes look. */
export interface ProbeOptions {
  /** Touched while it is alive. */
  readonly livenessFile: string | null;
  /** Answers `GET /health` and `GET /ready` with 200 or 503. */
  readonly healthPort: number | null;
}

/** What probes are told. `alive`: restarting it would not help. `ready`: it does its work now. */
export interface Health {
  readonly alive: boolean;
  readonly ready: boolean;
  /** Figures for people; they are shown under both paths. */
  readonly details: Readonly<Record<string, unknown>>;
}

const TOUCH_MS = 1_000;

/** Shows probes how a service is, as long as `fn` runs. */
export async function withProbes<T>(
  look: () => Health,
  { livenessFile, healthPort }: ProbeOptions,
  runtime: Pick<Runtime, 'clock' | 'log'>,
  fn: () => Promise<T>,
): Promise<T> {
  const server = healthPort === null ? null : await listen(look, healthPort);
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

async function listen(look: () => Health, port: number): Promise<Server> {
  const server = createServer((request, response) => {
    const isKnown = request.url === '/health' || request.url === '/ready';
    if (request.method !== 'GET' || !isKnown) {
      response.writeHead(404).end();
      return;
    }
    const { alive, ready, details } = look();
    const isWell = request.url === '/health' ? alive : alive && ready;
    response.writeHead(isWell ? 200 : 503, { 'content-type': 'application/json' });
    response.end(JSON.stringify({ alive, ready, ...details }));
  });
  server.listen(port);
  try {
    await once(server, 'listening');
  } catch (cause) {
    throw outlastError('ERR_OPTIONS_CONFLICT', {
      message: `the health port ${port} cannot be used: ${(cause as Error).message}`,
      hint: 'Give another --health-port.',
      fields: { options: ['healthPort'] },
      cause,
    });
  }
  return server;
}
