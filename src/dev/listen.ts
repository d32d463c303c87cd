import type { Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { outlastError } from '../errors/error.ts';

/** The page is for this machine only. */
const HOST = '127.0.0.1';
const LAST_PORT = 65_535;
/** How many ports after the first are tried before any free one is taken. */
const NEXT_PORTS = 50;

export interface Listening {
  readonly address: string;
  readonly port: number;
}

export function checkPort(port: number): number {
  if (Number.isInteger(port) && port >= 0 && port <= LAST_PORT) return port;
  throw outlastError('ERR_OPTION_RANGE', {
    message: `\`port\` is ${String(port)}`,
    hint: `Use a whole number from 0 to ${LAST_PORT}; 0 takes any free port.`,
    fields: { option: 'port' },
  });
}

/** Listens on the port asked for, or on the next free one. */
export async function listen(server: Server, wanted: number): Promise<Listening> {
  for (let port = wanted; port <= Math.min(wanted + NEXT_PORTS, LAST_PORT); port++) {
    const bound = await tryPort(server, port);
    if (bound !== null) return bound;
  }
  const bound = await tryPort(server, 0);
  if (bound !== null) return bound;
  throw outlastError('ERR_OPTION_RANGE', {
    message: 'no port is free',
    hint: 'Stop what holds them, then start again.',
    fields: { option: 'port' },
  });
}

/** Null when another process has the port, or when only root may use it. */
async function tryPort(server: Server, port: number): Promise<Listening | null> {
  try {
    await new Promise<void>((resolve, reject) => {
      server.once('error', reject);
      server.listen({ host: HOST, port, exclusive: true }, () => {
        server.off('error', reject);
        resolve();
      });
    });
  } catch (error) {
    const { code } = error as { readonly code?: unknown };
    if (code === 'EADDRINUSE' || code === 'EACCES') return null;
    throw error;
  }
  const bound = (server.address() as AddressInfo).port;
  return { port: bound, address: `http://${HOST}:${bound}` };
}
