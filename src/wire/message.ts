/**
 * A message as brokers carry it, in Celery's protocol 2: RabbitMQ as properties, headers and bytes, Redis as one JSON
 * document of the same parts.
 */
export interface WireMessage {
  readonly headers: Readonly<Record<string, unknown>>;
  readonly properties: WireProperties;
  /** `[args, kwargs, embed]`: the bytes of the envelope, never encoded again. */
  readonly body: Uint8Array;
}

export interface WireProperties {
  readonly contentType: string;
  readonly contentEncoding: string;
  readonly priority: number;
  readonly correlationId: string;
  /** Where an answer is to go; left out when nobody asked for one. */
  readonly replyTo?: string;
}

/** A message as it came, from whoever sent it: nothing about it is certain. */
export interface IncomingMessage {
  readonly headers: unknown;
  readonly properties: Readonly<Partial<Record<keyof WireProperties, unknown>>>;
  readonly body: Uint8Array;
  /** The queue it was taken from. */
  readonly queue: string;
}

/** A message nobody can run: it is buried with its bytes and the reason, and the consumer goes on. */
export interface UndecodableMessage {
  readonly raw: Uint8Array;
  readonly queue: string;
  readonly why: string;
  /** `ERR_DIGEST`: readable, but not what was sent. */
  readonly reason?: 'ERR_UNDECODABLE' | 'ERR_DIGEST';
  /** The name of the task, where it says one. */
  readonly name?: string;
  /** Its headers as texts of bounded length. */
  readonly headers?: Readonly<Record<string, string>>;
}

/** A reader of another language gives up beyond this, and so does AMQP's table. */
export const MAX_HEADER_BYTES = 65_536;
/** What a user may put in: it travels twice, beside what the protocol needs. */
export const MAX_USER_HEADER_BYTES = 24_576;
