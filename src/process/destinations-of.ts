import type { ResolvedConfig } from '../config/config.ts';
import { Destinations } from '../ledger/destinations.ts';
import { Routes } from '../ledger/routes.ts';
import type { Logger } from '../telemetry/logger.ts';
import type { Handler } from '../worker/handler.ts';

/**
 * The destinations that messages may name, and where tasks go that name none; empty if broker and ledger are one database,
 * where a queue is just a column value.
 */
export function destinationsOf(
  { broker, worker, celery }: Pick<ResolvedConfig, 'broker' | 'worker' | 'celery'>,
  log: Logger,
  handlers: ReadonlyMap<string, Handler> = new Map(),
): { readonly destinations?: Destinations } {
  if (broker === null) return {};
  const ofTasks = [...handlers.values()].map(({ task }) => task.contract.queue);
  const queues = [...Object.keys(worker.queues), ...ofTasks];
  const routes = new Routes(celery, (error, name) =>
    log.error({ error, name }, 'a function of celery.routes failed; the next route is taken'),
  );
  return { destinations: new Destinations({ queues, allowed: broker.destinations, routes }) };
}
