import { once } from 'node:events';
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
import { outlastError } from '../../errors/error.ts';

/** What probes get. `alive`: restarting it would not help. `ready`: it does its work now. */
export interface Health {
  readonly alive: boolean;
  readonly ready: boolean;
  /** Figures for clients on this machine; other clients get the two above only. */
  readonly details: Readonly<Record<string, unknown>>;
}

/** `GET /metrics`. */
export interface MetricsPage {
  text(): string;
  /** False: for clients on this machine. */
  readonly isForAnyone: boolean;
}

export interface HealthAddress {
  readonly host: string;
  readonly port: number;
}

/** A probe is one short request. A client that takes longer, or opens more connections at a time, is no probe. */
const HEADERS_MS = 2_000;
const REQUEST_MS = 3_000;
const SILENCE_MS = 5_000;
const MOST_CONNECTIONS = 32;
const MAX_HEADER_BYTES = 4_096;

/**
 * Answers `GET /health` and `GET /ready`. It shares its process with a supervisor or a relay and must not starve them, so
 * connections are few and short.
 */
export async function serveHealth(
  look: () => Health,
  address: HealthAddress,
  metrics: MetricsPage | null = null,
): Promise<Server> {
  const { host, port } = address;
  const limits = {
    maxHeaderSize: MAX_HEADER_BYTES,
    headersTimeout: HEADERS_MS,
    requestTimeout: REQUEST_MS,
    // How often Node checks the two above; the default is 30 s.
    connectionsCheckingInterval: 500,
  };
  const server = createServer(limits, (request, response) => {
    // One response each: a connection that is kept alive takes the slot of another.
    response.setHeader('connection', 'close');
    if (request.method === 'GET' && request.url === '/metrics' && metrics !== null)
      return sendMetrics(request, response, metrics);
    const isKnown = request.url === '/health' || request.url === '/ready';
    if (request.method !== 'GET' || !isKnown) {
      response.writeHead(404).end();
      return;
    }
    const { alive, ready, details } = look();
    const isWell = request.url === '/health' ? alive : alive && ready;
    const figures = isFromHere(request) ? details : {};
    const text = JSON.stringify({ alive, ready, ...figures });
    const headers = { 'content-type': 'application/json', 'content-length': text.length };
    response.writeHead(isWell ? 200 : 503, headers).end(text);
  });
  server.setTimeout(SILENCE_MS, socket => socket.destroy());
  server.on('connection', dropOldest());
  server.listen(port, host);
  try {
    await once(server, 'listening');
  } catch (cause) {
    throw outlastError('ERR_OPTIONS_CONFLICT', {
      message: `the health port ${port} on ${host} cannot be used: ${(cause as Error).message}`,
      hint: 'Give another --health-port or --health-host.',
      fields: { options: ['healthPort', 'healthHost'] },
      cause,
    });
  }
  return server;
}

function sendMetrics(request: IncomingMessage, response: ServerResponse, page: MetricsPage): void {
  if (!page.isForAnyone && !isFromHere(request)) {
    response.writeHead(403).end();
    return;
  }
  const text = page.text();
  const headers = { 'content-type': METRICS_TYPE, 'content-length': Buffer.byteLength(text) };
  response.writeHead(200, headers).end(text);
}

const METRICS_TYPE = 'text/plain; version=0.0.4; charset=utf-8';

/** Makes room for the newest: a probe is always new, and clients that hold connections open are old. */
function dropOldest(): (socket: Socket) => void {
  const open = new Set<Socket>();
  return socket => {
    open.add(socket);
    socket.once('close', () => open.delete(socket));
    if (open.size <= MOST_CONNECTIONS) return;
    const [oldest] = open;
    if (oldest) open.delete(oldest);
    oldest?.destroy();
  };
}

const LOOPBACK = /^(?:127\.|::1$|::ffff:127\.)/;
const LOCAL_NAME = /^(?:localhost|127(?:\.\d{1,3}){3}|\[::1\])(?::\d+)?$/i;

/** The Host must be a name of this machine, too: a web page whose name was made to point here gets no figures. */
function isFromHere({ socket, headers }: IncomingMessage): boolean {
  return LOOPBACK.test(socket.remoteAddress ?? '') && LOCAL_NAME.test(headers.host ?? '');
}
