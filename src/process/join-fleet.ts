import { hostname } from 'node:os';
import { FleetMember } from '../fleet/fleet-member.ts';
import { cancelTask } from '../outbox/cancel-task.ts';
import type { Handler } from '../worker/handler.ts';
import { packageVersion } from './worker-spec.ts';
import type { Context } from '../context/context.ts';
import { openFleet } from '../context/openers.ts';
import type { Stores } from '../context/stores.ts';
import type { ResolvedConfig } from '../config/config.ts';
import { Destinations } from '../ledger/destinations.ts';
import { Routes } from '../ledger/routes.ts';
import type { Logger } from '../telemetry/logger.ts';

export interface JoinParts {
  readonly context: Pick<Context, 'config' | 'runtime' | 'redact'>;
  readonly stores: Pick<Stores, 'ledger' | 'outbox' | 'results'>;
  readonly handlers: ReadonlyMap<string, Handler>;
  readonly onShutdown: () => void;
}

let count = 0;

/** A unique name for every worker, even if several live in one process. */
function nodeName(): string {
  count += 1;
  return `outlast-${process.pid}${count === 1 ? '' : `-${count}`}@${hostname()}`;
}

/** Makes this worker visible to Celery's tools; null where they cannot reach it, or are not wanted. */
export async function joinFleet(parts: JoinParts): Promise<FleetMember | null> {
  const { context, stores, handlers, onShutdown } = parts;
  const { runtime, redact } = context;
  const { broker, worker } = context.config;
  const control = worker.celeryControl === 'off' ? null : worker.celeryControl;
  const sendsEvents = worker.celeryEvents === 'on';
  if (broker === null || (control === null && !sendsEvents)) return null;
  const name = nodeName();
  const fleet = await openFleet(broker, {
    node: name,
    onTrouble: error =>
      runtime.log.warn({ error }, "Celery's tools cannot reach this worker; trying again"),
  });
  if (fleet === null) return null;
  const contracts = [...handlers.values()].map(({ task }) => task.contract);
  return new FleetMember({
    fleet,
    node: { name, pid: process.pid },
    ledger: { cancel: id => cancelTask(id, stores) },
    results: stores.results,
    runtime,
    redact,
    settings: {
      sendsEvents,
      control,
      knownQueues: [...Object.keys(worker.queues), ...contracts.map(({ queue }) => queue)],
      concurrency: worker.concurrency,
      version: packageVersion(),
      registered: [...handlers.keys()],
    },
    onShutdown,
  });
}

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
