import { systemClock } from '../runtime/clock.ts';
import { faultPointFromEnv } from './fault-point-env.ts';
import { systemRandom } from '../runtime/random.ts';
import type { Runtime } from '../runtime/runtime.ts';
import type { EventSink } from '../telemetry/events.ts';
import type { Logger } from '../telemetry/logger.ts';

/** The real world, for a part that runs in production. */
export function createRuntime(log: Logger, emit: EventSink): Runtime {
  return {
    clock: systemClock,
    random: systemRandom,
    faultPoint: faultPointFromEnv(process.env),
    log,
    emit,
  };
}
