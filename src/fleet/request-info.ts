import type { Envelope } from '../task/envelope.ts';
import type { Redact } from '../task/redact.ts';
import { formatInstant } from '../wire/iso-time.ts';
import type { NodeIdentity } from './event-sender.ts';
import { shownCall, shownValue } from './shown-call.ts';
import type { WaitingTask } from './waiting-tasks.ts';

/** What is known about a task in this process. */
export interface RequestState {
  /** In seconds; null: it has not started. */
  readonly startedAt: number | null;
  readonly isAcknowledged: boolean;
  readonly isRedelivered: boolean;
}

export interface RequestInfoDeps {
  readonly node: NodeIdentity;
  readonly redact: Redact | null;
}

/** A task as a Celery worker describes its requests. */
export function requestInfo(
  envelope: Envelope,
  { startedAt, isAcknowledged, isRedelivered }: RequestState,
  { node, redact }: RequestInfoDeps,
): object {
  const { id, name, queue, priority } = envelope;
  const { args, kwargs } = shownCall(envelope, redact);
  return {
    id,
    name,
    args: shownValue(args),
    kwargs: shownValue(kwargs),
    type: name,
    hostname: node.name,
    time_start: startedAt,
    acknowledged: isAcknowledged,
    delivery_info: { exchange: '', routing_key: queue, priority, redelivered: isRedelivered },
    worker_pid: startedAt === null ? null : node.pid,
  };
}

/** The priority that Celery gives to every task that waits for its time. */
const TIMER_PRIORITY = 6;

/** A member of Celery's `scheduled`. The ledger has it, so the broker does not any more. */
export function scheduledInfo({ envelope, dueMs }: WaitingTask, deps: RequestInfoDeps): object {
  const state = { startedAt: null, isAcknowledged: true, isRedelivered: false };
  return {
    eta: formatInstant(dueMs),
    priority: TIMER_PRIORITY,
    request: requestInfo(envelope, state, deps),
  };
}
