import type { Socket } from 'node:net';
import { outlastError } from '../../errors/error.ts';

/** Larger than any statement Outlast sends, small enough not to hurt the process that holds it. */
export const MAX_FRAME_BYTES: number = 64 * 1024 * 1024;

const HEADER_BYTES = 4;

/**
 * Writes one frame: its length in four bytes, then the payload. False when the socket asks for a
 * pause.
 */
export function writeFrame(socket: Socket, payload: Uint8Array): boolean {
  const header = Buffer.allocUnsafe(HEADER_BYTES);
  header.writeUInt32BE(payload.byteLength);
  socket.cork();
  socket.write(header);
  const isReady = socket.write(payload);
  socket.uncork();
  return isReady;
}

export function frameTooLarge(bytes: number, maxBytes: number): Error {
  return outlastError('ERR_PAYLOAD_TOO_LARGE', {
    message: `A message of ${bytes} bytes exceeds the ${maxBytes} that go through the socket.`,
    hint: 'Send or read fewer rows at once.',
    fields: { bytes, maxBytes },
  });
}

/** Cuts a stream of chunks into frames. */
export class FrameReader {
  /**
   * May be changed between two frames: before the token is checked a frame may be no longer than
   * the token.
   */
  maxBytes: number;
  #chunks: Buffer[] = [];
  #buffered = 0;
  /** Payload bytes of the frame being read; null while its header is incomplete. */
  #expected: number | null = null;

  constructor(maxBytes: number) {
    this.maxBytes = maxBytes;
  }

  /**
   * Yields every frame that is complete with this chunk. Throws on a frame above `maxBytes` as soon
   * as its header is there, before any of it is stored.
   */
  *read(chunk: Buffer): Generator<Buffer, void, void> {
    this.#chunks.push(chunk);
    this.#buffered += chunk.byteLength;
    for (;;) {
      if (this.#expected === null) {
        if (this.#buffered < HEADER_BYTES) return;
        const bytes = this.#take(HEADER_BYTES).readUInt32BE();
        if (bytes > this.maxBytes) throw frameTooLarge(bytes, this.maxBytes);
        this.#expected = bytes;
      }
      if (this.#buffered < this.#expected) return;
      const payload = this.#take(this.#expected);
      this.#expected = null;
      yield payload;
    }
  }

  /**
   * The chunks are joined only when a frame is complete: joining on every chunk would be quadratic.
   */
  #take(bytes: number): Buffer {
    const [first] = this.#chunks;
    const all = this.#chunks.length === 1 && first ? first : Buffer.concat(this.#chunks);
    const rest = all.subarray(bytes);
    this.#chunks = rest.byteLength === 0 ? [] : [rest];
    this.#buffered -= bytes;
    return all.subarray(0, bytes);
  }
}
