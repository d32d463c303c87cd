import type { ConfirmChannel } from 'amqplib';
import { FrameWriter, type Publication } from './frame-writer.ts';

type Confirm = (error: unknown) => void;

/** Where messages are put. */
export interface MessageSink {
  /** Adds a message and has its confirmation told. Throws when it was not added. */
  add(publication: Publication, confirm: Confirm): void;
  /** So much was added that it should go at once. */
  readonly hasEnough: boolean;
  /** Hands on what was added; false when the buffer is full. */
  flush(): boolean;
}

/** What amqplib's channel is made of. Not in its types; a test holds it to that. */
interface ChannelInside {
  readonly ch: number;
  readonly connection: {
    readonly frameMax: number;
    readonly channels: readonly ({ readonly buffer: { write(chunk: Buffer): boolean } } | null)[];
    sentSinceLastCheck: boolean;
  };
  pushConfirmCallback(confirm: Confirm): void;
}

/** How messages are put on this channel: by our own frames, or by amqplib's where it is made otherwise. */
export function publishOn(channel: ConfirmChannel): MessageSink {
  return publishByFrames(channel) ?? publishByDriver(channel);
}

function publishByFrames(channel: ConfirmChannel): MessageSink | null {
  const inside = channel as unknown as ChannelInside;
  const isKnown =
    typeof inside.ch === 'number' &&
    typeof inside.pushConfirmCallback === 'function' &&
    typeof inside.connection.frameMax === 'number' &&
    typeof inside.connection.channels?.[inside.ch]?.buffer.write === 'function';
  if (!isKnown) return null;
  const writer = new FrameWriter();
  return {
    add: (publication, confirm) => {
      const { connection, ch } = inside;
      if (!connection.channels[ch]) throw new Error('the channel is closed');
      writer.add(ch, publication, connection.frameMax);
      inside.pushConfirmCallback(confirm);
    },
    get hasEnough() {
      return writer.hasEnough;
    },
    flush: () => {
      const { connection, ch } = inside;
      const place = connection.channels[ch];
      let hasRoom = true;
      // Of a channel that was closed since, all that was added has been answered for.
      for (const frames of writer.take()) hasRoom = place?.buffer.write(frames) ?? true;
      connection.sentSinceLastCheck = true;
      return hasRoom;
    },
  };
}

/** Slower, and through nothing but what amqplib promises. */
export function publishByDriver(channel: ConfirmChannel): MessageSink {
  let hasRoom = true;
  return {
    add: ({ exchange, routingKey, headers, properties, body }, confirm) => {
      const content = Buffer.from(body.buffer, body.byteOffset, body.byteLength);
      const table = Object.fromEntries(
        Object.entries(headers).map(([name, value]) => [name, toField(value)]),
      );
      const options = { ...properties, headers: table, mandatory: true, persistent: true };
      hasRoom = channel.publish(exchange, routingKey, content, options, confirm);
    },
    get hasEnough() {
      return !hasRoom;
    },
    flush: () => {
      const had = hasRoom;
      hasRoom = true;
      return had;
    },
  };
}

/** Integers as `I`, as the frames of our own have them. */
function toField(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(toField);
  const isInt32 = typeof value === 'number' && (value | 0) === value;
  return isInt32 ? { '!': 'int', value } : value;
}
