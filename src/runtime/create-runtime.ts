import { type Runtime, processFaultPoint, systemClock, systemRandom } from './runtime.ts';
import { currentContext } from '../telemetry/ambient.ts';
import type { EventMap, EventName, EventSink } from '../telemetry/events.ts';
import type { LineLevel, Logger } from '../telemetry/logger.ts';

/** Events that an operator reading the log at night wants to see; the others are for debugging. */
const LEVELS: ReadonlyMap<EventName, LineLevel> = new Map([
  ['task:dead-lettered', 'error'],
  ['task:failed', 'warn'],
  ['task:stale', 'warn'],
  ['worker:lost', 'warn'],
  ['worker:lease-lost', 'warn'],
  ['relay:breaker-opened', 'warn'],
  ['relay:claim-lost', 'warn'],
  ['redaction:failed', 'error'],
  ['task:resurrected', 'info'],
  ['worker:drained', 'info'],
  ['relay:breaker-closed', 'info'],
]);

/** The real clock, randomness, log and events, for production. Log lines carry the names of events. */
export function createRuntime(log: Logger, listeners: EventSink): Runtime {
  const isLogged = (name: EventName): boolean =>
    log.isLevelEnabled?.(LEVELS.get(name) ?? 'debug') !== false;
  const emit: EventSink = Object.assign(
    <N extends EventName>(name: N, event: EventMap[N]): void => {
      if (isLogged(name)) log[LEVELS.get(name) ?? 'debug']({ ...currentContext(), ...event }, name);
      listeners(name, event);
    },
    { isHeard: (name: EventName) => isLogged(name) || listeners.isHeard?.(name) !== false },
  );
  return {
    clock: systemClock,
    random: systemRandom,
    faultPoint: processFaultPoint(),
    log,
    emit,
  };
}
