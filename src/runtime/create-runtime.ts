import { systemClock } from './clock.ts';
import { processFaultPoint } from './fault-point.ts';
import { systemRandom } from './random.ts';
import type { Runtime } from './runtime.ts';
import type { EventName, EventSink } from '../telemetry/events.ts';
import type { Logger, LogLevel } from '../telemetry/logger.ts';

/** Events that an operator reading the log at night wants to see. */
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

/** A handler that throws is logged with its stack: that is where to look. */
function levelOf(name: EventName, event: object): LogLevel {
  if (name === 'task:failed' && 'where' in event && event.where === 'worker') return 'warn';
  return NOTABLE.has(name) ? 'info' : 'debug';
}

/** The real clock, randomness, log and events, for production. Log lines carry the names of events. */
export function createRuntime(log: Logger, listeners: EventSink): Runtime {
  const emit: EventSink = (name, event) => {
    log[levelOf(name, event)](event, name);
    listeners(name, event);
  };
  return {
    clock: systemClock,
    random: systemRandom,
    faultPoint: processFaultPoint(),
    log,
    emit,
  };
}
