import { systemClock } from '../runtime/clock.ts';
import { faultPointFromEnv } from './fault-point-env.ts';
import { systemRandom } from '../runtime/random.ts';
import type { Runtime } from '../runtime/runtime.ts';
import type { EventName, EventSink } from '../telemetry/events.ts';
import type { Logger } from '../telemetry/logger.ts';

/** What somebody who reads the log at night wants to have been told. */
const NOTABLE: ReadonlySet<EventName> = new Set([
  'task:resurrected',
  'task:dead-lettered',
  'worker:lost',
  'worker:lease-lost',
  'worker:drained',
  'relay:breaker-opened',
  'relay:breaker-closed',
  'relay:claim-lost',
]);

/** The real world, for a part that runs in production. Log lines carry the names of events. */
export function createRuntime(log: Logger, listeners: EventSink): Runtime {
  const emit: EventSink = (name, event) => {
    log[NOTABLE.has(name) ? 'info' : 'debug'](event, name);
    listeners(name, event);
  };
  return {
    clock: systemClock,
    random: systemRandom,
    faultPoint: faultPointFromEnv(process.env),
    log,
    emit,
  };
}
