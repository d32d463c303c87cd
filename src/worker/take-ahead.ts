import type { Broker, Delivery } from '../broker/broker.ts';
import type { BegunTask } from '../ledger/ledger.ts';
import { AheadBudget } from '../runtime/ahead-budget.ts';
import type { Clock } from '../runtime/clock.ts';

/** Runs that are longer than this on average gain nothing from messages that are here already. */
const SHORT_MS = 20;
/** What is begun before there is room for it should not wait for a place for longer than this. */
const WAIT_MS = 40;
/** So many times the places are begun for, if tasks take next to no time: two batches of eight times the places. */
const MOST_EARLY = 16;
/** Where the ledger alone has tasks: what comes back from a crash comes first there, and all of it at once. */
const MOST_OF_LEDGER = 8;
/** A message taken ahead and not begun for this long belongs to whoever has a place for it. */
const LATE_MS = 250;
/** How much of the average the last run is. */
const WEIGHT = 0.05;
/** Before anything is known tasks count as long. */
const UNKNOWN_MS = 1_000;

interface Ahead {
  readonly delivery: Delivery;
  /** When it came. */
  readonly since: number;
}

/**
 * Takes messages from a broker, and while tasks are short one batch ahead: it is asked for while the batch before it is
 * begun, so that nothing waits for it. It never holds more than one batch, less of large messages, and gives back what
 * cannot be begun soon.
 */
export class TakeAhead {
  readonly #broker: Broker;
  readonly #clock: Clock;
  readonly #places: number;
  readonly #mostEarly: number;
  readonly #budget = new AheadBudget();
  #here: Ahead[] = [];
  #coming: Promise<void> | null = null;
  #averageMs = UNKNOWN_MS;

  /** @param places tasks that run at once */
  constructor(broker: Broker, clock: Clock, places: number) {
    this.#broker = broker;
    this.#clock = clock;
    this.#places = places;
    this.#mostEarly = broker.silentMs === undefined ? MOST_OF_LEDGER : MOST_EARLY;
  }

  onReady(queues: readonly string[], hint: () => void): () => void {
    return this.#broker.onReady(queues, hint);
  }

  /** How long the worker may sleep before it must look again; null: for as long as it likes. */
  get patienceMs(): number | null {
    // The oldest one: what is filled up before it is empty is never old as a whole.
    const [oldest] = this.#here;
    if (oldest === undefined) return null;
    return Math.max(oldest.since + LATE_MS - this.#clock.monotonic(), 0);
  }

  /** For how many times the places tasks may be begun: more than once while they are short and weigh little. */
  get early(): number {
    const most = Math.min(this.#mostEarly, Math.floor(WAIT_MS / this.#averageMs));
    return Math.max(1, Math.floor(this.#budget.allows(most * this.#places) / this.#places));
  }

  /**
   * Told of every batch. Whatever has killed a process may be among those that were there with it, and takes with it all
   * that are begun at the time: as long as some of them come, nothing is begun early.
   */
  noteBegun(tasks: readonly Pick<BegunTask, 'crashes'>[]): void {
    if (tasks.some(({ crashes }) => crashes > 0)) this.#averageMs = UNKNOWN_MS;
  }

  /** Told of every run. */
  noteRun(ms: number, bytes: number): void {
    this.#averageMs += (ms - this.#averageMs) * WEIGHT;
    this.#budget.note(bytes);
  }

  /** What is here, and else what the broker has. */
  async take(queues: readonly string[], limit: number): Promise<readonly Delivery[]> {
    // At once where nothing is coming: whoever left a queue meanwhile would be taking from it again.
    if (this.#coming !== null && this.#here.length < limit) await this.#coming;
    return this.#here.length > 0
      ? this.#here.splice(0, limit).map(({ delivery }) => delivery)
      : await this.#broker.take(queues, limit);
  }

  /** Asks for the next batch, while tasks are short. What is pushed is here already, under limits of its own. */
  ask(queues: readonly string[], most: number): void {
    if (this.#broker.isPushing === true) return;
    const { length } = this.#here;
    const limit = this.#budget.allows(most);
    if (this.#averageMs > SHORT_MS || this.#coming !== null) return;
    if (limit === 0 || length > limit / 2) return;
    this.#coming = this.#broker.take(queues, limit - length).then(
      deliveries => {
        const since = this.#clock.monotonic();
        for (const delivery of deliveries) this.#here.push({ delivery, since });
        this.#coming = null;
      },
      // The take that needs them asks again, and hears of it.
      () => {
        this.#coming = null;
      },
    );
  }

  /** Gives back what has waited for too long: the tasks that run are longer than they seemed. */
  async giveBackLate(): Promise<void> {
    if (this.patienceMs !== 0) return;
    this.#averageMs = UNKNOWN_MS;
    await this.giveBack();
  }

  /** Gives back everything. What the broker does not take back now returns when its hold is over. */
  async giveBack(): Promise<void> {
    await this.#coming;
    const deliveries = this.#here.splice(0).map(({ delivery }) => delivery);
    if (deliveries.length > 0) await this.#broker.giveBack(deliveries);
  }
}
