import type { Broker, Delivery } from '../../broker/broker.ts';
import { endOfTick } from '../../runtime/wakeable.ts';
import type { Logger } from '../../telemetry/logger.ts';

/** Answers of one worker to its broker, in batches: answers of the same tick are sent together. */
export class BrokerAnswers {
  readonly #broker: Broker;
  readonly #log: Logger;
  #acks: Delivery[] = [];
  #returns: Delivery[] = [];
  /** One promise for all answers that are sent together. */
  #sending: Promise<void> | null = null;

  constructor(broker: Broker, log: Logger) {
    this.#broker = broker;
    this.#log = log;
  }

  /** The ledger has the message. Resolves when the broker has the ack, or could not take it. */
  ack(delivery: Delivery): Promise<void> {
    this.#acks.push(delivery);
    return (this.#sending ??= this.#send());
  }

  /**
   * It is unknown whether the ledger has the message: the worker that gets it next asks. It goes back through the broker,
   * because a process that slept may hold a copy of a message that is done elsewhere, and forgotten. It blocks no queue.
   */
  requeue(delivery: Delivery): Promise<void> {
    this.#returns.push(delivery);
    return (this.#sending ??= this.#send());
  }

  async #send(): Promise<void> {
    await endOfTick();
    const [acks, returns] = [this.#acks, this.#returns];
    [this.#acks, this.#returns, this.#sending] = [[], [], null];
    await Promise.all([
      this.#answer(acks, deliveries => this.#broker.ack(deliveries)),
      this.#answer(returns, deliveries => this.#requeue(deliveries)),
    ]);
  }

  #requeue(deliveries: readonly Delivery[]): Promise<void> {
    const broker = this.#broker;
    return broker.requeue ? broker.requeue(deliveries) : broker.giveBack(deliveries);
  }

  async #answer(
    deliveries: readonly Delivery[],
    call: (deliveries: readonly Delivery[]) => Promise<void>,
  ): Promise<void> {
    if (deliveries.length === 0) return;
    try {
      await call(deliveries);
    } catch (error) {
      const count = deliveries.length;
      const fields = { error, deliveries: count };
      this.#log.warn(fields, 'the broker took no answer; it will deliver again');
    }
  }
}
