/**
 * How many messages a broker may push to this process. `worker/flow` decides; a broker that pushes reports what it holds and
 * obeys. Nothing here is called for each message: once for a take, an acknowledgement, a change.
 */
export interface Demand {
  /**
   * Called once for each queue, before its first message.
   *
   * @param isAlone no other queue is taken from
   */
  join(queue: PushedQueue, isAlone: boolean): QueueDemand;
}

/** The demand for messages of one queue: numbers to obey, and what the broker has to report. */
export interface QueueDemand {
  /** The size of the window that a consumed queue always has. */
  readonly first: number;
  /** How many messages one take may pull while nothing is pushed. */
  readonly mostPulled: number;
  /** A pull found the queue empty. */
  foundEmpty(): void;
  /** A take wanted more than was at hand. */
  ranShort(): void;
  /** The first message is at hand: there was none before. */
  arrived(): void;
  /**
   * So many messages were acknowledged. `pulledMs`: how long ago the oldest message without an answer was pulled; null: none
   * of these was pulled.
   */
  acknowledged(count: number, pulledMs: number | null): void;
  /** Messages were given back, or windows shut, by order or because their channel is gone. */
  changed(): void;
}

/** A queue of a broker that pushes: what it holds in this process, and the orders it obeys. */
export interface PushedQueue {
  /** The server pushes its messages at the moment. */
  readonly isConsuming: boolean;
  /** Nothing is pushed: a take pulls what it asks for. */
  readonly isPulling: boolean;
  /** The worker waits for its messages: it has not left the queue. */
  readonly isAwaited: boolean;
  /** Messages that are not answered. */
  readonly unacknowledged: number;
  /** Those of them that were not taken yet. */
  readonly atHand: number;
  /** The bytes of messages at hand. */
  readonly bytesAtHand: number;
  /** How long the oldest message at hand has waited; 0: there is none. */
  readonly waitedMs: number;
  /** The size of large messages of late. */
  readonly messageBytes: number;
  /** Opens one more window; null: it cannot be opened now. */
  open(size: number): PushWindow | null;
  /** Nothing more comes through these windows. `givesBack`: messages of theirs that were not taken go back. */
  shut(windows: readonly PushWindow[], givesBack: boolean): Promise<void>;
  /** Shuts all windows and gives back messages that were not taken. From now on takes pull. */
  pause(): Promise<void>;
  /** Ends a pause: its messages are pushed again, through the first window. */
  resume(): void;
}

/** The broker pushes up to `size` messages through it that are not answered. The size of a window cannot be changed. */
export interface PushWindow {
  readonly size: number;
  /** Messages that came through it and are not answered. */
  readonly held: number;
  readonly state: 'opening' | 'open' | 'shutting' | 'shut';
}
