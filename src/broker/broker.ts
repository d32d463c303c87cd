import type { Envelope } from '../task/envelope.ts';
import type { UndecodableMessage } from '../wire/message.ts';
import type { Reply } from '../wire/reply.ts';
import type { Demand } from './demand.ts';

export type { UndecodableMessage };

/**
 * What we need from a message broker. If broker and ledger are one database, a published message is a ledger record at
 * once: `take` then returns nothing, and there is nothing to acknowledge.
 */
export interface Broker {
  /**
   * Resolves when the broker has answered for every message: confirmed and routed, or not; one outcome for each, in
   * order. An unavailable broker is an outcome, not a rejection. There is no time limit: a caller that must not wait
   * uses a `DestinationGuard`.
   */
  publish(
    messages: readonly Envelope[],
    manner?: PublishManner,
  ): Promise<readonly PublishOutcome[]>;
  /**
   * Its queues may fail one by one, and may belong to other programs. Missing if broker and ledger are one database:
   * there a queue is only a column.
   */
  readonly hasQueues?: boolean;
  /**
   * From now on messages are pushed to this process before a take, within this demand: a take asks no server, and
   * prefetching would gain nothing. Called once, before the first take. Missing if nothing is pushed, as on Redis and in a
   * database: a take asks for as many as `Flow` says, and there is nothing else to obey.
   */
  pushWithin?(demand: Demand): void;
  /** Up to `limit` messages for this consumer, held until acknowledged or given back. */
  take(queues: readonly string[], limit: number): Promise<readonly Delivery[]>;
  /** The ledger has these: drop them. */
  ack(deliveries: readonly Delivery[]): Promise<void>;
  /** The ledger, on the broker's own server, has acknowledged these: only drop them locally. */
  forget?(deliveries: readonly Delivery[]): void;
  /**
   * Delivers these again, to any consumer: this one continues, and may get them itself. Missing: `giveBack` does not
   * keep messages from coming here either.
   */
  requeue?(deliveries: readonly Delivery[]): Promise<void>;
  /** Not begun here: deliver them to another consumer. */
  giveBack(deliveries: readonly Delivery[]): Promise<void>;
  /** Calls `hint` when these queues may have something to take. Returns the undo. */
  onReady(queues: readonly string[], hint: () => void): () => void;
  /**
   * Answers senders that wait on their own queue; missing if the broker cannot do that. `confirmed` also if the queue is
   * gone: its sender no longer waits.
   */
  reply?(replies: readonly Reply[]): Promise<readonly PublishOutcome[]>;
  /**
   * Tells all Celery workers by remote control that they must not run a task. At most once, as all of remote control.
   * Rejects, within a bound, when the broker cannot be used. Missing: there are no Celery workers at this broker.
   */
  revoke?(id: string): Promise<void>;
  /**
   * For worker health: milliseconds since the broker last showed that messages of these queues reach this process, by
   * consuming without a break or by an answer to `take`. 0: they do now. Null: nothing was taken from one of them yet. A
   * worker without a free slot takes nothing: then this is not meaningful. Missing if broker and ledger are one
   * database.
   */
  silentMs?(queues: readonly string[]): number | null;
  /**
   * For worker health: why the broker accepts no messages at the moment, in its own words; null: it does. Missing if the
   * broker does not report it.
   */
  blockedBy?(): string | null;
  close(): Promise<void>;
}

export interface PublishManner {
  /**
   * Only to existing queues that were declared as Celery does. Nothing is declared: a foreign message named this
   * destination.
   */
  readonly toExisting?: boolean;
  /**
   * Queues to declare first, if they are missing and may be declared: our own application named them for follow-ups of these
   * messages. Never from a received message. The messages are sent even if that fails.
   */
  readonly alsoDeclare?: readonly string[];
}

export type PublishOutcome =
  | { readonly status: 'confirmed' }
  /**
   * The row's own fault, reported by the broker: it costs a retry. `isFinal`: its bytes cannot be made into a message, and no
   * later try can end differently.
   */
  | { readonly status: 'refused'; readonly error: string; readonly isFinal?: true }
  /**
   * The broker could not be reached or did not answer: the message may have arrived. Costs no retry. With `retryAfterMs`
   * only this destination does not answer.
   */
  | { readonly status: 'unavailable'; readonly error: string; readonly retryAfterMs?: number }
  /**
   * The channel was closed while several messages were on it, and one of them is at fault: sending each alone shows
   * which.
   */
  | { readonly status: 'suspect'; readonly error: string };

export interface Delivery {
  readonly tag: string;
  readonly message: Envelope | UndecodableMessage;
}
