import type { Broker, Delivery } from '../../broker/broker.ts';
import { isUnavailable } from '../../errors/error.ts';
import type { Clock, Runtime } from '../../runtime/runtime.ts';
import { RetryPace } from '../../runtime/backoff.ts';
import type { Envelope } from '../../task/envelope.ts';
import type { Flow } from './flow.ts';

/** A message that was prefetched and not begun for this long is given back: another worker may have a slot for it. */
const LATE_MS = 250;
/**
 * A message that the ledger does not take is kept, because quorum queues count each return; but RabbitMQ closes the
 * channel of a message that is held for half an hour.
 */
const LONGEST_KEEP_MS = 1_200_000;
/** A message that could not even be buried is retried after this, here or on another worker; each return is counted. */
const SHELF_MS = 60_000;
/** A broker that has not answered by then counts as silent: tasks that wait in the ledger are begun without it. */
const ANSWER_MS = 1_000;
/** How long to wait before asking a failed broker again. */
const BROKER_RETRY = { baseMs: 250, maxMs: 5_000 };

interface Held {
  readonly delivery: Delivery;
  /** When it arrived. */
  readonly since: number;
}

/**
 * Messages of the broker that are at hand: prefetched within the limits of `Flow`, or kept because the ledger does not take
 * them. Messages that cannot be begun soon are given back.
 */
export class Prefetch {
  readonly #broker: Broker;
  readonly #clock: Clock;
  readonly #keepMs: number;
  readonly #flow: Pick<Flow, 'prefetch' | 'tasksAreLong' | 'windows'>;
  #here: Held[] = [];
  /** The ledger did not take them. */
  #kept: Held[] = [];
  /** This worker can neither begin nor bury them. */
  #shelved: Held[] = [];
  #coming: Promise<void> | null = null;
  readonly #pace: RetryPace;
  /** The broker could not be asked: no request is sent to it until then. */
  #awayUntil = -Infinity;
  /** A take that failed for another reason; not reported to the caller yet. */
  #failure: { readonly error: unknown } | null = null;
  #wake: () => void = () => undefined;

  /**
   * @param dedupMs for how long the ledger knows a task that has ended. If the broker connection was lost meanwhile, the broker
   *   delivers the messages kept here to other workers as well: begun after that time they would run again.
   */
  constructor(
    broker: Broker,
    runtime: Pick<Runtime, 'clock' | 'random' | 'log'>,
    flow: Pick<Flow, 'prefetch' | 'tasksAreLong' | 'windows'>,
    dedupMs: number = Infinity,
  ) {
    this.#broker = broker;
    this.#clock = runtime.clock;
    this.#flow = flow;
    this.#pace = new RetryPace(runtime, BROKER_RETRY, {
      failing: 'the broker gives no messages; what waits in the ledger is run meanwhile',
      over: 'the broker gives messages again',
    });
    this.#keepMs = Math.min(LONGEST_KEEP_MS, dedupMs / 2);
    broker.pushWithin?.(flow.windows);
  }

  /** The broker pushes messages to this process. */
  get isPushedTo(): boolean {
    return this.#broker.pushWithin !== undefined;
  }

  /** Messages that are held, at hand or kept. */
  get size(): number {
    return this.#here.length + this.#kept.length + this.#shelved.length;
  }

  /** The tasks of the messages at hand that can be read. */
  get envelopes(): readonly Envelope[] {
    return this.#here.flatMap(({ delivery: { message } }) => ('raw' in message ? [] : [message]));
  }

  onReady(queues: readonly string[], hint: () => void): () => void {
    this.#wake = hint;
    return this.#broker.onReady(queues, hint);
  }

  /** How long the worker may sleep before it must look again; null: no limit. */
  get maxSleepMs(): number | null {
    // The oldest one: a buffer that is refilled before it is empty never gets old as a whole.
    const [oldest] = this.#here;
    if (oldest === undefined) return null;
    return Math.max(oldest.since + LATE_MS - this.#clock.monotonic(), 0);
  }

  /** How long until a failed broker is asked again; null: it is not away. */
  get awayMs(): number | null {
    if (this.#pace.failures === 0) return null;
    return Math.max(this.#awayUntil - this.#clock.monotonic(), 0);
  }

  /** The ledger did not take these: they are the first to be offered again. */
  keep(deliveries: readonly Delivery[]): void {
    const since = this.#clock.monotonic();
    for (const delivery of deliveries) this.#kept.push({ delivery, since });
  }

  /** The ledger can neither take nor bury these: they are set aside for a while, or they would come again at once. */
  shelve(deliveries: readonly Delivery[]): void {
    const since = this.#clock.monotonic();
    for (const delivery of deliveries) this.#shelved.push({ delivery, since });
  }

  /** Messages at hand, else messages of the broker; both from a broker that pushes, because its messages are here as well. */
  async take(queues: readonly string[], limit: number): Promise<readonly Delivery[]> {
    // No await if nothing is coming: a caller that left a queue meanwhile would take from it again.
    if (this.#coming !== null && this.#here.length < limit) await this.#soon(this.#coming);
    if (this.#kept.length + this.#shelved.length > 0) await this.#giveBackKept();
    if (this.#here.length + this.#kept.length === 0) return await this.#fetch(queues, limit);
    const here = this.#kept.splice(0, limit);
    here.push(...this.#here.splice(0, limit - here.length));
    const taken = here.map(({ delivery }) => delivery);
    if (taken.length === limit || !this.isPushedTo) return taken;
    return [...taken, ...(await this.#broker.take(queues, limit - taken.length))];
  }

  /** Asks for the next batch, while tasks are short. Pushed messages are here already, within their windows. */
  ask(queues: readonly string[]): void {
    if (this.isPushedTo || this.#coming !== null) return;
    const limit = this.#flow.prefetch(this.#here.length);
    if (limit > 0) void this.#comeSoon(queues, limit);
  }

  /**
   * Messages of the broker. A broker that does not answer does not delay tasks that wait in the ledger: its messages are
   * handed out when they come.
   */
  async #fetch(queues: readonly string[], limit: number): Promise<readonly Delivery[]> {
    if (this.isPushedTo) return await this.#broker.take(queues, limit);
    if (this.#coming !== null || (this.awayMs ?? 0) > 0) return [];
    await this.#soon(this.#comeSoon(queues, limit));
    const failure = this.#failure;
    this.#failure = null;
    if (failure !== null) throw failure.error;
    return this.#here.splice(0, limit).map(({ delivery }) => delivery);
  }

  #comeSoon(queues: readonly string[], limit: number): Promise<void> {
    const askedAt = this.#clock.monotonic();
    const come = (): void => {
      this.#coming = null;
      if (this.#clock.monotonic() - askedAt >= ANSWER_MS) this.#wake();
    };
    const coming = this.#broker.take(queues, limit).then(
      deliveries => {
        const since = this.#clock.monotonic();
        for (const delivery of deliveries) this.#here.push({ delivery, since });
        this.#pace.succeeded();
        come();
      },
      (error: unknown) => {
        if (isUnavailable(error))
          this.#awayUntil = this.#clock.monotonic() + this.#pace.failed(error);
        else this.#failure = { error };
        come();
      },
    );
    this.#coming = coming;
    return coming;
  }

  #soon(coming: Promise<void>): Promise<void> {
    return new Promise(resolve => {
      const cancel = this.#clock.timer(ANSWER_MS, resolve);
      void coming.then(() => {
        cancel();
        resolve();
      });
    });
  }

  /** Gives back messages that have waited too long: the running tasks are longer than they seemed. */
  async giveBackLate(): Promise<void> {
    await this.#giveBackKept();
    if (this.maxSleepMs !== 0) return;
    this.#flow.tasksAreLong();
    await this.#coming;
    await this.#return(this.#here);
  }

  async #giveBackKept(): Promise<void> {
    const shelves = [
      [this.#kept, this.#keepMs],
      [this.#shelved, Math.min(this.#keepMs, SHELF_MS)],
    ] as const;
    for (const [some, mostMs] of shelves) {
      const [oldest] = some;
      const isOver = oldest !== undefined && this.#clock.monotonic() - oldest.since > mostMs;
      if (isOver) await this.#return(some);
    }
  }

  /** Gives back everything. A message that the broker does not take back now returns when its hold ends. */
  async giveBack(): Promise<void> {
    await this.#coming;
    this.#here.push(...this.#kept.splice(0), ...this.#shelved.splice(0));
    await this.#return(this.#here);
  }

  async #return(some: Held[]): Promise<void> {
    const deliveries = some.splice(0).map(({ delivery }) => delivery);
    if (deliveries.length > 0) await this.#broker.giveBack(deliveries);
  }
}
