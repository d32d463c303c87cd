import { createServer, type Server } from 'node:http';
import { listen } from './listen.ts';
import { LiveView } from './live-view.ts';
import { readSnapshot } from './read-snapshot.ts';
import { createRoutes, type RouteDeps } from './routes.ts';
import type { Clock } from '../runtime/runtime.ts';

export interface PageOptions extends Omit<RouteDeps, 'view'> {
  readonly port: number;
  readonly clock: Clock;
}

export interface Page {
  readonly address: string;
  readonly port: number;
  /** Something may have changed: look at once. */
  readonly hint: () => void;
  close(): Promise<void>;
}

const CLOSE_PATIENCE_MS = 1_000;

/** Serves the page on this machine. After `close` it does not touch the database. */
export async function servePage(options: PageOptions): Promise<Page> {
  const { source, stores, clock, log } = options;
  const view = new LiveView({ read: () => readSnapshot(source), clock, log });
  const server = createServer(createRoutes({ ...options, view }));
  const { address, port } = await listen(server, options.port);
  const undo = [stores.outbox.onReady(view.hint), stores.ledger.onReady(view.hint)];
  const close = async (): Promise<void> => {
    for (const unlisten of undo) unlisten();
    await view.stop();
    await closeServer(server, clock);
  };
  return { address, port, hint: view.hint, close };
}

/** Open responses are completed; a browser that does not read on is cut off. */
async function closeServer(server: Server, clock: Clock): Promise<void> {
  await new Promise<void>(resolve => {
    const giveUp = clock.timer(CLOSE_PATIENCE_MS, () => server.closeAllConnections());
    server.close(() => {
      giveUp();
      resolve();
    });
    server.closeIdleConnections();
  });
}
