import { hostname } from 'node:os';
import type { Fleet, FleetOptions } from '../broker/fleet.ts';
import type { BrokerTarget } from '../config/broker-target.ts';
import type { ResolvedConfig } from '../config/config.ts';
import { FleetMember } from '../fleet/fleet-member.ts';
import { cancelTask } from '../outbox/cancel-task.ts';
import type { Runtime } from '../runtime/runtime.ts';
import { packageVersion } from './package-version.ts';
import { redactOf } from './redact-of.ts';
import type { Stores } from './stores.ts';

export interface JoinParts {
  readonly config: ResolvedConfig;
  readonly stores: Pick<Stores, 'ledger' | 'outbox' | 'results'>;
  readonly runtime: Runtime;
  /** Names of the tasks that have a handler here. */
  readonly registered: readonly string[];
  readonly onShutdown: () => void;
}

let count = 0;

/** One name for every worker, also where several live in one process. */
function nodeName(): string {
  count += 1;
  return `outlast-${process.pid}${count === 1 ? '' : `-${count}`}@${hostname()}`;
}

/** Makes this worker one that Celery's tools know; null where they do not reach, or are not wanted. */
export async function joinFleet(parts: JoinParts): Promise<FleetMember | null> {
  const { config, stores, runtime, registered, onShutdown } = parts;
  const { broker, worker } = config;
  const isListening = worker.celeryControl === 'on';
  const isTellingEvents = worker.celeryEvents === 'on';
  if (broker === null || (!isListening && !isTellingEvents)) return null;
  const name = nodeName();
  const fleet = await openFleet(broker, {
    node: name,
    onTrouble: error =>
      runtime.log.warn({ error }, "Celery's tools cannot reach this worker; trying again"),
  });
  if (fleet === null) return null;
  return new FleetMember({
    fleet,
    node: { name, pid: process.pid },
    ledger: { cancel: id => cancelTask(id, stores) },
    results: stores.results,
    runtime,
    redact: redactOf(config, runtime),
    settings: {
      isTellingEvents,
      isListening,
      concurrency: worker.concurrency,
      version: packageVersion(),
      registered,
    },
    onShutdown,
  });
}

async function openFleet(target: BrokerTarget, options: FleetOptions): Promise<Fleet | null> {
  switch (target.kind) {
    case 'rabbitmq': {
      const { RabbitFleet } = await import('../adapters/rabbitmq/rabbitmq-fleet.ts');
      return new RabbitFleet(target, options);
    }
    case 'redis': {
      const { openRedisFleet } = await import('../adapters/redis/redis-fleet.ts');
      return await openRedisFleet(target.url, options);
    }
  }
}
