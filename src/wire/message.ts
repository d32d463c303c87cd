import { defaultNumber } from '../options/option.ts';
import { TOP_LEVEL_TABLE } from '../options/top-level-table.ts';
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
  /** The address for an answer; left out if none was requested. */
  readonly replyTo?: string;
}

/** A received message, from any sender: nothing about it is certain. */
export interface IncomingMessage {
  readonly headers: unknown;
  readonly properties: Readonly<Partial<Record<keyof WireProperties, unknown>>>;
  readonly body: Uint8Array;
  /** The queue it was taken from. */
  readonly queue: string;
}

/** A message that no worker can run: it is buried with its bytes and the reason, and the consumer continues. */
export interface UndecodableMessage {
  /** Its bytes; the first of them if it is too large. */
  readonly raw: Uint8Array;
  readonly queue: string;
  readonly why: string;
  /** `why` is a parser's message, which quotes the bytes. */
  readonly quotes?: true;
  /** `ERR_DIGEST`: readable, but not what was sent. */
  readonly reason?: 'ERR_UNDECODABLE' | 'ERR_DIGEST' | 'ERR_MESSAGE_TOO_LARGE';
  /** Its size and digest before it was cut. */
  readonly cut?: CutMessage;
  /** The name of the task, if it has one. */
  readonly name?: string;
  /** Who waits for its answer, if that is known. */
  readonly asker?: Asker;
  /** Its headers as texts of bounded length. */
  readonly headers?: Readonly<Record<string, string>>;
}

/** Who waits for the answer to a message, whether or not it can be read. */
export interface Asker {
  readonly id: string;
  /** Its own queue; left out: the sender looks for results elsewhere. */
  readonly replyTo?: string;
  readonly correlationId: string;
}

/** What is known about a message of which only the first bytes were kept. */
export interface CutMessage {
  /** Its size when received. */
  readonly bytes: number;
  /** Over all bytes, as hexadecimal text. */
  readonly sha256: string;
}

/** The default of `maxMessageBytes`: RabbitMQ's own default limit. */
export const MAX_MESSAGE_BYTES: number = defaultNumber(TOP_LEVEL_TABLE, 'maxMessageBytes');
/** This much is kept of a message that is too large: enough to identify its sender. */
export const KEPT_BYTES = 4_096;
/** More than the header frame of AMQP holds. */
export const MAX_OPTIONS_BYTES = 262_144;

/** Readers in other languages fail beyond this, and so does AMQP's table. */
export const MAX_HEADER_BYTES = 65_536;
/** The limit for a user's headers: they are sent twice, beside what the protocol needs. */
export const MAX_USER_HEADER_BYTES = 24_576;
