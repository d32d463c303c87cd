import type { Envelope } from '../task/envelope.ts';
import type { UndecodableMessage } from '../wire/message.ts';
import type { Reply } from '../wire/reply.ts';

export type { UndecodableMessage };

/**
 * What we ask of a message broker. Where broker and ledger are one database a published message is a
 * ledger record at once: `take` then has nothing to give, and there is nothing to acknowledge.
 */
export interface Broker {
  /**
   * Resolves when the broker has answered for every message: confirmed and routed, or not; one outcome for each, in
   * order. Trouble with the broker is an outcome, not a rejection.
   */
  publish(messages: readonly Envelope[]): Promise<readonly PublishOutcome[]>;
  /** Messages come to this process before anybody takes them: a take asks nobody, and one ahead would gain nothing. */
  readonly isPushing?: boolean;
  /** Up to `limit` messages for this consumer, held until acknowledged or given back. */
  take(queues: readonly string[], limit: number): Promise<readonly Delivery[]>;
  /** The ledger has these: forget them. */
  ack(deliveries: readonly Delivery[]): Promise<void>;
  /** These were acknowledged by the ledger, which is on the broker's own server: they are nobody's business here. */
  forget?(deliveries: readonly Delivery[]): void;
  /** Not begun here: deliver them elsewhere. */
  giveBack(deliveries: readonly Delivery[]): Promise<void>;
  /** Calls `hint` when these queues may have something to take. Returns the undo. */
  onReady(queues: readonly string[], hint: () => void): () => void;
  /**
   * Answers senders that wait at a queue of their own; missing where nobody can be answered so. `confirmed` also where the
   * queue is gone: whoever had it waits no more.
   */
  reply?(replies: readonly Reply[]): Promise<readonly PublishOutcome[]>;
  /**
   * For the health of a worker: milliseconds since the broker last showed that messages of these queues come to this
   * process, by consuming without a break or by an answer to `take`. 0: they do now. Null: nobody has taken from one of them yet.
   * A worker that has no place free asks for nothing: then this says nothing about it. Missing where broker and ledger
   * are one database.
   */
  silentMs?(queues: readonly string[]): number | null;
  close(): Promise<void>;
}

export type PublishOutcome =
  | { readonly status: 'confirmed' }
  /** The row's own fault, told by the broker: it costs a retry. */
  | { readonly status: 'refused'; readonly error: string }
  /** The broker could not be asked or did not answer: the message may have arrived. Costs no retry. */
  | { readonly status: 'unavailable'; readonly error: string }
  /** The channel was closed while several messages were on it, and one of them is at fault: sent alone, it shows which. */
  | { readonly status: 'suspect'; readonly error: string };

export interface Delivery {
  readonly tag: string;
  readonly message: Envelope | UndecodableMessage;
}
