import type { Envelope } from '../task/envelope.ts';
import type { Redact } from '../task/redact.ts';
import { formatInstant } from '../wire/iso-time.ts';
import type { NodeIdentity } from './event-sender.ts';
import { shownCall, shownValue } from './shown-call.ts';

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

/** Celery holds any number in memory. These are only shown: the ledger has the tasks themselves. */
const MOST_SHOWN = 1_000;

export interface WaitingTask {
  readonly envelope: Envelope;
  readonly dueMs: number;
}

/** The tasks that this process has put into the ledger until their time comes: Celery's `scheduled`. */
export class WaitingTasks {
  readonly #tasks = new Map<string, WaitingTask>();

  note(envelope: Envelope, dueMs: number): void {
    this.#tasks.delete(envelope.id);
    if (this.#tasks.size < MOST_SHOWN) this.#tasks.set(envelope.id, { envelope, dueMs });
  }

  forget(id: string): void {
    this.#tasks.delete(id);
  }

  /** Those that are not due yet, the next one first. Any worker may begin the others. */
  list(nowMs: number): readonly WaitingTask[] {
    for (const [id, { dueMs }] of this.#tasks) if (dueMs <= nowMs) this.#tasks.delete(id);
    return [...this.#tasks.values()].sort((a, b) => a.dueMs - b.dueMs);
  }
}
