import type { Fleet } from '../broker/fleet.ts';
import type { Runtime } from '../runtime/runtime.ts';
import { encodeJson, toBytes } from '../task/json.ts';
import type { BegunTask, ErrorRecord } from '../ledger/ledger.ts';
import type { Envelope } from '../task/envelope.ts';
import type { Redact } from '../task/redact.ts';
import { shorten } from '../wire/encode-message.ts';
import { readOptions } from '../task/read-options.ts';
import { formatInstant } from '../wire/iso-time.ts';
import type { Settlement } from '../worker/run/settlement.ts';
import { shownCall } from './shown-call.ts';

/** The identity of a node in the fleet. */
export interface NodeIdentity {
  /** `outlast-<pid>@<host>`: one name for each worker. */
  readonly name: string;
  readonly pid: number;
}

type Fields = Readonly<Record<string, unknown>>;

/** How many task events go into one message. */
const BATCH = 100;
/** How long an event may wait for others in its batch. */
const GATHER_MS = 200;
/** Pause after the broker accepted nothing. */
const RETRY_MS = 1_000;
/** Kept while the broker is away. With long tracebacks this is some ten megabytes. */
const MOST_WAITING = 1_000;
const MINUTES_PER_HOUR = 60;

/**
 * Sends Celery's events. No caller waits for them: task events are gathered and sent in batches, worker events at
 * once. While the broker is away the newest are kept, and the rest are dropped and counted.
 */
export class EventSender {
  readonly #fleet: Fleet;
  readonly #runtime: Runtime;
  readonly #node: NodeIdentity;
  readonly #clock: LamportClock;
  readonly #waiting: Fields[] = [];
  #cancelTimer: (() => void) | null = null;
  #sending: Promise<void> | null = null;
  #dropped = 0;
  #isDropping = false;

  constructor(fleet: Fleet, runtime: Runtime, node: NodeIdentity, clock: LamportClock) {
    this.#fleet = fleet;
    this.#runtime = runtime;
    this.#node = node;
    this.#clock = clock;
  }

  /** How many events were never sent. */
  get dropped(): number {
    return this.#dropped;
  }

  /** Sends a worker event: `worker-heartbeat`. One that cannot be sent now is worthless later. */
  async sendNow(type: string, fields: Fields): Promise<void> {
    const isSent = await this.#send(type.replace('-', '.'), this.#event(type, fields));
    if (!isSent) this.#dropped += 1;
  }

  /** Sends a task event, soon. */
  send(type: string, fields: Fields): void {
    this.#waiting.push(this.#event(type, fields));
    this.#dropOverflow();
    if (this.#waiting.length >= BATCH) this.#start();
    else this.#startIn(GATHER_MS);
  }

  /** Sends the gathered events; resolves after one attempt. */
  async flush(): Promise<void> {
    this.#start();
    await this.#sending;
  }

  /** Sends nothing more. */
  stop(): void {
    this.#cancelTimer?.();
    this.#waiting.length = 0;
  }

  #event(type: string, fields: Fields): Fields {
    const nowMs = this.#runtime.clock.now();
    return {
      hostname: this.#node.name,
      // Whole hours west of Greenwich, as Python counts them.
      utcoffset: Math.floor(new Date(nowMs).getTimezoneOffset() / MINUTES_PER_HOUR),
      pid: this.#node.pid,
      clock: this.#clock.forward(),
      ...fields,
      timestamp: nowMs / 1_000,
      type,
    };
  }

  #startIn(ms: number): void {
    this.#cancelTimer ??= this.#runtime.clock.timer(ms, () => this.#start());
  }

  #start(): void {
    this.#cancelTimer?.();
    this.#cancelTimer = null;
    this.#sending ??= this.#sendWaiting().finally(() => {
      this.#sending = null;
    });
  }

  async #sendWaiting(): Promise<void> {
    while (this.#waiting.length > 0) {
      const batch = this.#waiting.splice(0, BATCH);
      if (await this.#send('task.multi', batch)) {
        this.#isDropping = false;
        continue;
      }
      this.#waiting.unshift(...batch);
      this.#dropOverflow();
      this.#startIn(RETRY_MS);
      return;
    }
  }

  async #send(routingKey: string, value: unknown): Promise<boolean> {
    const body = toBytes(encodeJson(value));
    return await this.#fleet.tell({ routingKey, headers: { hostname: this.#node.name }, body });
  }

  #dropOverflow(): void {
    const overflow = this.#waiting.length - MOST_WAITING;
    if (overflow <= 0) return;
    this.#waiting.splice(0, overflow);
    this.#dropped += overflow;
    if (this.#isDropping) return;
    this.#isDropping = true;
    this.#runtime.log.warn({}, 'the broker takes no events; the oldest are dropped');
  }
}

/** More than any fleet has counted; a node that claims more would only push the count to the end of the integers. */
const MOST = 2 ** 48;

/** Lamport's logical clock: orders the messages between nodes, whatever their wall clocks show. */
export class LamportClock {
  #value = 0;

  get value(): number {
    return this.#value;
  }

  /** The next count, for a message from here. */
  forward(): number {
    this.#value += 1;
    return this.#value;
  }

  /** A message with this count was received. */
  adjust(other: number): void {
    this.#value = Math.max(this.#value, other < MOST ? other : 0) + 1;
  }
}

/** A Celery event about one task. */
export interface TaskEvent {
  readonly type: string;
  readonly fields: Readonly<Record<string, unknown>>;
}

/** Celery's `task-received`: the only one that describes the task. */
export function receivedEvent(
  envelope: Envelope,
  retries: number,
  redact: Redact | null,
): TaskEvent {
  const { id, name, etaMs, expiresMs } = envelope;
  const { rootId, parentId } = readOptions(envelope);
  const instant = (ms: number | null): string | null => (ms === null ? null : formatInstant(ms));
  return {
    type: 'task-received',
    fields: {
      uuid: id,
      name,
      ...shownCall(envelope, redact),
      root_id: rootId ?? id,
      parent_id: parentId ?? null,
      retries,
      eta: instant(etaMs),
      expires: instant(expiresMs),
    },
  };
}

export function revokedEvent(
  uuid: string,
  how: { readonly signal?: string; readonly isExpired?: boolean } = {},
): TaskEvent {
  const { signal, isExpired = false } = how;
  return {
    type: 'task-revoked',
    fields: { uuid, terminated: signal !== undefined, signum: signal ?? null, expired: isExpired },
  };
}

/** The end of a run as a Celery event; null if Celery has none for it. */
export function endedEvent(
  { id: uuid }: BegunTask,
  settlement: Settlement,
  { ranMs, isResultShown }: { readonly ranMs: number; readonly isResultShown: boolean },
): TaskEvent | null {
  switch (settlement.kind) {
    case 'commit': {
      // A task that its handler discarded neither succeeded nor failed.
      if (settlement.outcome.kind === 'discarded') return rejectedEvent(uuid, false);
      const result = isResultShown ? shorten(settlement.value) : '"[hidden]"';
      return { type: 'task-succeeded', fields: { uuid, result, runtime: ranMs / 1_000 } };
    }
    case 'fail': {
      const type = settlement.delayMs === null ? 'task-failed' : 'task-retried';
      return { type, fields: { uuid, ...errorFields(settlement.error) } };
    }
    case 'bury':
      return { type: 'task-failed', fields: { uuid, ...errorFields(settlement.error) } };
    case 'release':
      return rejectedEvent(uuid, true);
    case 'drop':
      return null;
  }
}

const rejectedEvent = (uuid: string, requeue: boolean): TaskEvent => ({
  type: 'task-rejected',
  fields: { uuid, requeue },
});

/** As Python shows an exception: `ValueError('boom')`. */
function errorFields({ type, message, traceback }: ErrorRecord): Record<string, string> {
  const text = shorten(message).replaceAll('\\', '\\\\').replaceAll("'", "\\'");
  return { exception: `${type}('${text.replaceAll('\n', '\\n')}')`, traceback };
}
