import type { Fleet } from '../broker/fleet.ts';
import type { Runtime } from '../runtime/runtime.ts';
import { encodeJson, toBytes } from '../task/json.ts';
import type { LamportClock } from './lamport-clock.ts';

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
