import type { Broker, Delivery } from '../../broker/broker.ts';
import {
  acceptDeliveries,
  answerDeliveries,
  type Beginnable,
  type Begun,
  type DeliveryDeps,
  type Taker,
} from './deliveries.ts';
import type { Heartbeat } from '../lease/heartbeat.ts';
import type { Intake } from './intake.ts';
import type { Prefetch } from '../flow/prefetch.ts';

export interface MessageCustodyParts {
  readonly broker: Pick<Broker, 'giveBack'>;
  readonly heartbeat: Pick<Heartbeat, 'lastBeatAt'>;
  readonly intake: Intake;
  readonly prefetch: Prefetch;
}

/** Handles messages between the broker and the ledger: those that the ledger takes, and those that it does not. */
export class MessageCustody {
  readonly #parts: MessageCustodyParts;

  constructor(parts: MessageCustodyParts) {
    this.#parts = parts;
  }

  /** Returns the messages that can be begun; the ledger has the others. */
  async accept(
    taken: readonly Delivery[],
    taker: Taker,
    deps: DeliveryDeps,
  ): Promise<readonly Beginnable[]> {
    const { intake } = this.#parts;
    if (taken.length === 0) return [];
    try {
      const { beginnable, parked } = await acceptDeliveries(taken, taker, deps);
      if (parked > 0) intake.took();
      else if (beginnable.length === 0) intake.unproven();
      return beginnable;
    } catch (error) {
      // The ledger did not take the messages that cannot run now: only this worker can answer for them.
      intake.keep(taken, error);
      throw error;
    }
  }

  /** The deliveries of begun tasks, by id. */
  async answer(begun: Begun, deps: DeliveryDeps): Promise<ReadonlyMap<string, Delivery>> {
    if (begun.given.length > 0) this.#parts.intake.took();
    const { begun: byId, unanswered } = await answerDeliveries(begun, deps);
    if (unanswered.length > 0) this.#parts.prefetch.shelve(unanswered);
    return byId;
  }

  /**
   * These were not begun. `error` is null if the ledger gave no final answer: the worker leaves, or has lost its
   * incarnation, and with it the right to everything it holds. Returns null.
   */
  async setBack(
    deliveries: readonly Beginnable[],
    error: Error | null,
    askedAt: number,
  ): Promise<null> {
    const { intake, prefetch, heartbeat, broker } = this.#parts;
    const copies = deliveries.map(({ delivery }) => delivery);
    if (copies.length === 0) return null;
    if (error === null) {
      intake.unproven();
      await broker.giveBack(copies);
      return null;
    }
    intake.keep(copies, error);
    // The ledger does not get our heartbeats either: another worker may reach it.
    if (heartbeat.lastBeatAt() <= askedAt) await prefetch.giveBack();
    return null;
  }
}
