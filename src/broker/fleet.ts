/**
 * What is asked of a broker besides messages, where tools of a fleet share it: a way to tell events to whoever listens, and to be
 * asked by whoever is allowed to publish. All of it may be lost, and nothing of it may hold up a task.
 */
export interface Fleet {
  readonly place: FleetPlace;
  /**
   * Tells events. False: the broker is away or takes nothing now, so they were not sent. Never rejects.
   */
  tell(message: EventMessage): Promise<boolean>;
  /** Hears every request from now on, again after the broker was away; what is asked meanwhile is lost. */
  listen(hear: (message: RequestMessage) => void): void;
  /** Answers a request. The one who asked may be gone. Never rejects. */
  answer(message: AnswerMessage): Promise<void>;
  close(): Promise<void>;
}

/** Where the broker is, in words that may be shown. */
export interface FleetPlace {
  readonly transport: 'amqp' | 'redis';
  readonly hostname: string;
  readonly port: number;
  readonly userid: string | null;
  /** The virtual host of RabbitMQ, the number of the database of Redis. */
  readonly virtualHost: string;
  readonly isTls: boolean;
}

export interface EventMessage {
  /** The kind of events: `worker.heartbeat`, `task.multi`. */
  readonly routingKey: string;
  readonly headers: Readonly<Record<string, unknown>>;
  readonly body: Uint8Array;
}

/** A request as it came: nothing about it is certain. */
export interface RequestMessage {
  readonly headers: unknown;
  readonly body: Uint8Array;
}

export interface AnswerMessage {
  readonly routingKey: string;
  readonly headers: Readonly<Record<string, unknown>>;
  readonly body: Uint8Array;
}

/** What an adapter tells besides. */
export interface FleetOptions {
  /** The name of this node, for names that people see at the broker. */
  readonly node: string;
  /** Told when the broker cannot be used, once until it can be used again. */
  readonly onTrouble: (error: unknown) => void;
}
