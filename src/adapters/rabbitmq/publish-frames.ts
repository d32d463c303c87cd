import type { ConfirmChannel } from 'amqplib';
import { FrameWriter, type Publication } from './frame-writer.ts';

type Confirm = (error: unknown) => void;

/** Writes a message and has its confirmation told; false when the buffer is full. Throws when nothing was written. */
export type Publish = (publication: Publication, confirm: Confirm) => boolean;

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
export function publishOn(channel: ConfirmChannel): Publish {
  return publishByFrames(channel) ?? publishByDriver(channel);
}

function publishByFrames(channel: ConfirmChannel): Publish | null {
  const inside = channel as unknown as ChannelInside;
  const isKnown =
    typeof inside.ch === 'number' &&
    typeof inside.pushConfirmCallback === 'function' &&
    typeof inside.connection.frameMax === 'number' &&
    typeof inside.connection.channels?.[inside.ch]?.buffer.write === 'function';
  if (!isKnown) return null;
  const writer = new FrameWriter();
  return (publication, confirm) => {
    const { connection, ch } = inside;
    const place = connection.channels[ch];
    if (!place) throw new Error('the channel is closed');
    const frames = writer.write(ch, publication, connection.frameMax);
    const hasRoom = place.buffer.write(frames);
    connection.sentSinceLastCheck = true;
    inside.pushConfirmCallback(confirm);
    return hasRoom;
  };
}

/** Slower, and through nothing but what amqplib promises. */
export function publishByDriver(channel: ConfirmChannel): Publish {
  return ({ exchange, routingKey, headers, properties, body }, confirm) => {
    const content = Buffer.from(body.buffer, body.byteOffset, body.byteLength);
    const table = Object.fromEntries(
      Object.entries(headers).map(([name, value]) => [name, toField(value)]),
    );
    const options = { ...properties, headers: table, mandatory: true, persistent: true };
    return channel.publish(exchange, routingKey, content, options, confirm);
  };
}

/** Integers as `I`, as the frames of our own have them. */
function toField(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(toField);
  const isInt32 = typeof value === 'number' && (value | 0) === value;
  return isInt32 ? { '!': 'int', value } : value;
}
