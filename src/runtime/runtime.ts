import type { EventSink } from '../telemetry/events.ts';
import type { Logger } from '../telemetry/logger.ts';
import type { Clock } from './clock.ts';
import type { FaultPoint } from './fault-point.ts';
import type { Random } from './random.ts';

/** What every long-lived part needs from the outside world, and all it may have of it besides its ports. */
export interface Runtime {
  readonly clock: Clock;
  readonly random: Random;
  readonly faultPoint: FaultPoint;
  readonly log: Logger;
  readonly emit: EventSink;
}
