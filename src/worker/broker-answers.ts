import type { Broker, Delivery } from '../broker/broker.ts';
import { endOfTick } from '../runtime/end-of-tick.ts';
import type { Logger } from '../telemetry/logger.ts';

interface Waiting {
  readonly delivery: Delivery;
  readonly resolve: () => void;
}

/** Answers of one worker to its broker, in batches: what comes in the same tick travels together. */
export class BrokerAnswers {
  readonly #broker: Broker;
  readonly #log: Logger;
  readonly #acks: Waiting[] = [];
  readonly #returns: Waiting[] = [];
  #isFlushing = false;

  constructor(broker: Broker, log: Logger) {
    this.#broker = broker;
    this.#log = log;
  }

  /** The ledger has it. Resolves when the broker was told, or could not be. */
  ack(delivery: Delivery): Promise<void> {
    return this.#add(this.#acks, delivery);
  }

  giveBack(delivery: Delivery): Promise<void> {
    return this.#add(this.#returns, delivery);
  }

  #add(list: Waiting[], delivery: Delivery): Promise<void> {
    return new Promise(resolve => {
      list.push({ delivery, resolve });
      if (!this.#isFlushing) void this.#flush();
    });
  }

  async #flush(): Promise<void> {
    this.#isFlushing = true;
    await endOfTick();
    this.#isFlushing = false;
    const [acks, returns] = [this.#acks.splice(0), this.#returns.splice(0)];
    void this.#answer(acks, deliveries => this.#broker.ack(deliveries));
    void this.#answer(returns, deliveries => this.#broker.giveBack(deliveries));
  }

  async #answer(
    waiting: readonly Waiting[],
    call: (deliveries: readonly Delivery[]) => Promise<void>,
  ): Promise<void> {
    if (waiting.length === 0) return;
    try {
      await call(waiting.map(({ delivery }) => delivery));
    } catch (error) {
      const deliveries = waiting.length;
      this.#log.warn({ error, deliveries }, 'the broker took no answer; it will deliver again');
    }
    for (const { resolve } of waiting) resolve();
  }
}
