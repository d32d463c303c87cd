import type { ConfirmChannel } from 'amqplib';
import { toDriverTable } from './field-table.ts';
import { FrameWriter, type Publication } from './frame-writer.ts';

type Confirm = (error: unknown) => void;

/** Takes messages to be sent. */
export interface MessageSink {
  /** Adds a message; `confirm` gets its confirmation. Throws when it was not added. */
  add(publication: Publication, confirm: Confirm): void;
  /** Enough was added to send it at once. */
  readonly hasEnough: boolean;
  /** Sends what was added; false when the buffer is full. */
  flush(): boolean;
}

/** The internals of amqplib's channel. Not in its types; a test checks that they are there. */
interface ChannelInside {
  readonly ch: number;
  readonly connection: {
    readonly frameMax: number;
    readonly channels: readonly ({ readonly buffer: { write(chunk: Buffer): boolean } } | null)[];
    sentSinceLastCheck: boolean;
  };
  pushConfirmCallback(confirm: Confirm): void;
}

/** Writes messages to this channel: with our own frames, or through amqplib where its internals differ. */
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
      const open = connection.channels[ch];
      let hasRoom = true;
      // If the channel was closed since, everything added has been settled already.
      for (const frames of writer.take()) hasRoom = open?.buffer.write(frames) ?? true;
      connection.sentSinceLastCheck = true;
      return hasRoom;
    },
  };
}

/** Slower, and uses only amqplib's public API. */
export function publishByDriver(channel: ConfirmChannel): MessageSink {
  let hasRoom = true;
  return {
    add: ({ exchange, routingKey, headers, properties, body }, confirm) => {
      const content = Buffer.from(body.buffer, body.byteOffset, body.byteLength);
      const table = toDriverTable(headers);
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
