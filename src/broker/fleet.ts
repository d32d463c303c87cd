/**
 * What else we need from a broker that fleet tools share: emit events to all listeners, and receive requests from any
 * client that may publish. All of it may be lost, and none of it may hold up a task.
 */
export interface Fleet {
  readonly place: FleetPlace;
  /** Sends events. False: the broker is away or accepts nothing now, so they were not sent. Never rejects. */
  tell(message: EventMessage): Promise<boolean>;
  /** Receives every request from now on, also after the broker was away; requests in between are lost. */
  listen(onRequest: (message: RequestMessage) => void): void;
  /** Answers a request. The caller may be gone. Never rejects. */
  answer(message: AnswerMessage): Promise<void>;
  close(): Promise<void>;
}

/** The broker's address, without secrets. */
export interface FleetPlace {
  readonly transport: 'amqp' | 'redis';
  readonly hostname: string;
  readonly port: number;
  readonly userid: string | null;
  /** RabbitMQ's virtual host, or Redis's database number. */
  readonly virtualHost: string;
  readonly isTls: boolean;
}

export interface EventMessage {
  /** The kind of events: `worker.heartbeat`, `task.multi`. */
  readonly routingKey: string;
  readonly headers: Readonly<Record<string, unknown>>;
  readonly body: Uint8Array;
}

/** A received request. The listener reads it, or skips it: even reading takes time. */
export interface RequestMessage {
  /** Its size. */
  readonly bytes: number;
  /** Nothing about it is certain. Null: it is not a message. */
  read(): RequestParts | null;
}

export interface RequestParts {
  readonly headers: unknown;
  readonly body: Uint8Array;
}

export interface AnswerMessage {
  readonly routingKey: string;
  readonly headers: Readonly<Record<string, unknown>>;
  readonly body: Uint8Array;
}

/** What an adapter needs and reports. */
export interface FleetOptions {
  /** The name of this node, for names shown at the broker. */
  readonly node: string;
  /** Called when the broker cannot be used, once until it can be used again. */
  readonly onTrouble: (error: unknown) => void;
}
