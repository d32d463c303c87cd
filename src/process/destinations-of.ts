import type { ResolvedConfig } from '../config/config.ts';
import { Destinations } from '../ledger/destinations.ts';
import type { Handler } from '../worker/handler.ts';

/** The destinations that messages may name; empty if broker and ledger are one database, where a queue is just a column value. */
export function destinationsOf(
  { broker, worker }: Pick<ResolvedConfig, 'broker' | 'worker'>,
  handlers: ReadonlyMap<string, Handler> = new Map(),
): { readonly destinations?: Destinations } {
  if (broker === null) return {};
  const ofTasks = [...handlers.values()].map(({ task }) => task.contract.queue);
  const queues = [...Object.keys(worker.queues), ...ofTasks];
  return { destinations: new Destinations({ queues, allowed: broker.destinations }) };
}
