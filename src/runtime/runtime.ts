import type { EventSink } from '../telemetry/events.ts';
import type { Logger } from '../telemetry/logger.ts';
import type { Clock } from './clock.ts';
import type { FaultPoint } from './fault-point.ts';
import type { Random } from './random.ts';

/** Everything a long-lived part may use of the outside world, besides its ports. */
export interface Runtime {
  readonly clock: Clock;
  readonly random: Random;
  readonly faultPoint: FaultPoint;
  readonly log: Logger;
  readonly emit: EventSink;
}
