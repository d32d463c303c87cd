import type { Broker, Delivery, PublishOutcome } from '../../broker/broker.ts';
import { isUnavailable } from '../../errors/error.ts';
import type { Envelope } from '../../task/envelope.ts';
import { park } from './postgres-letters.ts';
import type { SqlDatabase } from '../sql/sql-database.ts';

/**
 * PostgreSQL as the broker: a published message is a waiting record of the ledger at once, so workers find it
 * by `begin`, and there is never anything to take or to acknowledge.
 */
export class PostgresBroker implements Broker {
  readonly #db: SqlDatabase;

  constructor(db: SqlDatabase) {
    this.#db = db;
  }

  async publish(messages: readonly Envelope[]): Promise<readonly PublishOutcome[]> {
    if (messages.length === 0) return [];
    try {
      await this.#park(messages);
      return messages.map(() => ({ status: 'confirmed' }));
    } catch (error) {
      if (isUnavailable(error))
        return messages.map(() => ({ status: 'unavailable', error: String(error) }));
      if (messages.length === 1) return [{ status: 'refused', error: String(error) }];
      return await this.#publishOneByOne(messages);
    }
  }

  /** One message that the database refuses must not stop the others. */
  async #publishOneByOne(messages: readonly Envelope[]): Promise<readonly PublishOutcome[]> {
    const outcomes: PublishOutcome[] = [];
    for (const message of messages) outcomes.push(...(await this.publish([message])));
    return outcomes;
  }

  async #park(messages: readonly Envelope[]): Promise<void> {
    await park(
      this.#db,
      messages.map(envelope => ({ envelope, delayMs: null })),
    );
  }

  take(): Promise<readonly Delivery[]> {
    return Promise.resolve([]);
  }

  ack(): Promise<void> {
    return Promise.resolve();
  }

  giveBack(): Promise<void> {
    return Promise.resolve();
  }

  /** The ledger notifies workers. */
  onReady(): () => void {
    return () => undefined;
  }

  /** The opener of the database closes it. */
  close(): Promise<void> {
    return Promise.resolve();
  }
}
