import { describe, expect, it } from 'vitest';
import {
  bodyOf,
  CELERY_52,
  CELERY_56,
  type CeleryMessage,
} from '../../../test/support/celery-vectors.ts';
import { FrameWriter, type Publication } from './frame-writer.ts';
import { readProperties } from './frame-reader.ts';

const FRAME_MAX = 131_072;

function publicationOf(message: CeleryMessage): Publication {
  const { properties } = message;
  return {
    exchange: message.exchange,
    routingKey: message.routing_key,
    headers: message.headers,
    properties: {
      contentType: properties['content_type'] as string,
      contentEncoding: properties['content_encoding'] as string,
      priority: properties['priority'] as number,
      correlationId: properties['correlation_id'] as string,
      replyTo: properties['reply_to'] as string,
    },
    body: bodyOf(message),
  };
}

/** The bytes of one message. */
function write(
  writer: FrameWriter,
  channel: number,
  publication: Publication,
  max: number,
): Buffer {
  writer.add(channel, publication, max);
  return Buffer.concat(writer.take());
}

interface Frame {
  readonly type: number;
  readonly channel: number;
  readonly payload: Buffer;
}

function framesOf(bytes: Buffer): Frame[] {
  const frames: Frame[] = [];
  for (let at = 0; at < bytes.length;) {
    const size = bytes.readUInt32BE(at + 3);
    expect(bytes[at + 7 + size]).toBe(0xce);
    const payload = bytes.subarray(at + 7, at + 7 + size);
    frames.push({ type: bytes.readUInt8(at), channel: bytes.readUInt16BE(at + 1), payload });
    at += size + 8;
  }
  return frames;
}

/** The messages that Celery sends as we do: persistent, without an expiration, and with no integer beyond 32 bits. */
const isAlike = ({ properties, headers }: CeleryMessage): boolean =>
  properties['delivery_mode'] === 2 &&
  'correlation_id' in properties &&
  !('expiration' in properties) &&
  !('big' in headers);
const alike = [...CELERY_52, ...CELERY_56].flatMap(({ name, messages }) =>
  messages.filter(isAlike).map(message => ({ name, message })),
);

describe('the frames of a message', () => {
  it.each(alike)('are byte for byte those of Celery: $name', ({ message }) => {
    const frames = framesOf(write(new FrameWriter(), 7, publicationOf(message), FRAME_MAX));
    expect(frames.map(({ type, channel }) => [type, channel])).toEqual([
      [1, 7],
      [2, 7],
      [3, 7],
    ]);
    expect(frames[1]?.payload.toString('hex')).toBe(message.content_header_hex);
    expect(new Uint8Array(frames[2]?.payload ?? [])).toEqual(bodyOf(message));
  });

  const [{ message: plain }] = alike as [(typeof alike)[number]];

  it('are no larger than the server allows', () => {
    const body = new Uint8Array(10_000).fill(7);
    const frames = framesOf(write(new FrameWriter(), 1, { ...publicationOf(plain), body }, 4_096));
    const parts = frames.slice(2).map(({ payload }) => payload);
    expect(parts.map(({ length }) => length)).toEqual([4_088, 4_088, 1_824]);
    expect(new Uint8Array(Buffer.concat(parts))).toEqual(body);
    const empty = write(
      new FrameWriter(),
      1,
      { ...publicationOf(plain), body: new Uint8Array() },
      4_096,
    );
    expect(framesOf(empty)).toHaveLength(2);
  });

  it.each<[string, Readonly<Record<string, unknown>>]>([
    ['headers larger than a frame', { big: 'x'.repeat(5_000) }],
    ['headers larger than the largest frame', { big: 'x'.repeat(200_000) }],
    ['a header name that is too long', { ['n'.repeat(256)]: 'x' }],
    ['a value of an unsupported type', { value: 7n }],
  ])('are refused for %s, and the writer stays usable', (_, headers) => {
    const writer = new FrameWriter();
    const publication = publicationOf(plain);
    const before = write(writer, 1, publication, 4_096);
    expect(() => write(writer, 1, { ...publication, headers }, 4_096)).toThrow();
    expect(write(writer, 1, publication, 4_096)).toEqual(before);
  });

  it('are returned in the order in which messages were added, whatever their sizes', () => {
    const writer = new FrameWriter();
    const sizes = [
      10,
      0,
      60_000,
      10,
      300_000,
      16_384,
      10,
      ...Array.from({ length: 90 }, () => 1_000),
    ];
    const messages = sizes.map((size, index) => ({
      ...publicationOf(plain),
      routingKey: `to.${index}`,
      body: new Uint8Array(size).fill(index),
    }));
    const taken: Buffer[] = [];
    for (const message of messages) {
      writer.add(1, message, FRAME_MAX);
      expect(() => writer.add(1, { ...message, headers: { value: 7n } }, FRAME_MAX)).toThrow();
      if (writer.hasEnough) taken.push(...writer.take());
    }
    taken.push(...writer.take());
    expect(writer.take()).toEqual([]);
    const alone = messages.map(message => write(new FrameWriter(), 1, message, FRAME_MAX));
    expect(Buffer.concat(taken).equals(Buffer.concat(alone))).toBe(true);
    expect(taken.length).toBeLessThan(messages.length / 4);
  });

  it('encode every type of header value', () => {
    const headers = {
      text: 'é😀',
      numbers: [0, -1, 128, 40_000, 2 ** 31, 2 ** 53 - 1, 0.5, -2.25],
      nothing: null,
      is: true,
      nested: { a: { b: 'c' } },
    };
    const frames = framesOf(
      write(new FrameWriter(), 1, { ...publicationOf(plain), headers }, FRAME_MAX),
    );
    const header = frames[1]?.payload.subarray(12) as Buffer;
    expect(readProperties(header, 0, header.length)).toMatchObject({
      headers,
      deliveryMode: 2,
      priority: 0,
    });
  });
});

describe('properties written by Celery', () => {
  it.each(
    [...CELERY_52, ...CELERY_56].flatMap(({ name, messages }) =>
      messages.map(message => ({ name, message })),
    ),
  )('are read without change: $name', ({ message }) => {
    const bytes = Buffer.from(message.content_header_hex, 'hex').subarray(12);
    const { headers, contentType, priority } = readProperties(bytes, 0, bytes.length);
    expect(headers).toEqual(message.headers);
    expect(contentType).toBe(message.properties['content_type']);
    expect(priority).toBe(message.properties['priority']);
  });

  it('are read without headers when the header table is malformed', () => {
    const table = Buffer.from([0, 0, 0, 4, 1, 0x61, 0x3f, 0]);
    const bytes = Buffer.concat([Buffer.from([0x30, 0x00]), table, Buffer.from([2])]);
    expect(readProperties(bytes, 0, bytes.length)).toEqual({ headers: undefined, deliveryMode: 2 });
  });
});
