import type { Broker, Delivery } from '../broker/broker.ts';
import { endOfTick } from '../runtime/end-of-tick.ts';
import type { Logger } from '../telemetry/logger.ts';

/** Answers of one worker to its broker, in batches: what comes in the same tick travels together. */
export class BrokerAnswers {
  readonly #broker: Broker;
  readonly #log: Logger;
  #acks: Delivery[] = [];
  #returns: Delivery[] = [];
  /** The same promise for all that travel together. */
  #telling: Promise<void> | null = null;

  constructor(broker: Broker, log: Logger) {
    this.#broker = broker;
    this.#log = log;
  }

  /** The ledger has it. Resolves when the broker was told, or could not be. */
  ack(delivery: Delivery): Promise<void> {
    this.#acks.push(delivery);
    return (this.#telling ??= this.#tell());
  }

  giveBack(delivery: Delivery): Promise<void> {
    this.#returns.push(delivery);
    return (this.#telling ??= this.#tell());
  }

  async #tell(): Promise<void> {
    await endOfTick();
    const [acks, returns] = [this.#acks, this.#returns];
    [this.#acks, this.#returns, this.#telling] = [[], [], null];
    await Promise.all([
      this.#answer(acks, deliveries => this.#broker.ack(deliveries)),
      this.#answer(returns, deliveries => this.#broker.giveBack(deliveries)),
    ]);
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
