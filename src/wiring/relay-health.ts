import { closeSync, openSync, utimesSync } from 'node:fs';
import { createServer, type Server } from 'node:http';
import { once } from 'node:events';
import { outlastError } from '../errors/error.ts';
import type { Relay } from '../relay/relay.ts';
import type { Runtime } from '../runtime/runtime.ts';

export interface HealthOptions {
  /** Touched while the relay is healthy. */
  readonly livenessFile: string | null;
  /** Answers `GET /health` with 200 or 503. */
  readonly healthPort: number | null;
  readonly sendTimeoutMs: number;
}

const TOUCH_MS = 1_000;
/** A healthy relay is never silent for longer, whatever it waits for. */
const LEAST_PATIENCE_MS = 15_000;

/** Shows probes whether a relay makes progress, as long as `fn` runs. */
export async function withHealth<T>(
  relay: Pick<Relay, 'status'>,
  options: HealthOptions,
  runtime: Pick<Runtime, 'clock' | 'log'>,
  fn: () => Promise<T>,
): Promise<T> {
  const patienceMs = Math.max(LEAST_PATIENCE_MS, options.sendTimeoutMs * 2);
  const isAlive = (): boolean => relay.status.idleMs < patienceMs;
  const server =
    options.healthPort === null ? null : await listen(relay, isAlive, options.healthPort);
  const stop = options.livenessFile === null ? null : touch(options.livenessFile, isAlive, runtime);
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

async function listen(
  relay: Pick<Relay, 'status'>,
  isAlive: () => boolean,
  port: number,
): Promise<Server> {
  const server = createServer((request, response) => {
    if (request.method !== 'GET' || request.url !== '/health') {
      response.writeHead(404).end();
      return;
    }
    const { idleMs, breaker, sample } = relay.status;
    const body = {
      alive: isAlive(),
      idle_seconds: Math.round(idleMs) / 1_000,
      breaker,
      queue_depth: sample === null ? null : sample.pending + sample.claimed,
      dlq_count: sample?.deadLetters ?? null,
      oldest_pending_seconds:
        sample === null || sample.oldestPendingMs === null ? null : sample.oldestPendingMs / 1_000,
      unsupported: sample?.unsupported ?? null,
    };
    response.writeHead(body.alive ? 200 : 503, { 'content-type': 'application/json' });
    response.end(JSON.stringify(body));
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
