import { type Socket, connect } from 'node:net';
import type { Clock } from '../../runtime/runtime.ts';
import type { SqlRow } from '../sql/sql-database.ts';
import {
  type Endpoint,
  PROTOCOL,
  type Reply,
  type RequestBody,
  decodeReply,
  encode,
  storeUnavailable,
} from './wire.ts';
import { FrameReader, MAX_FRAME_BYTES, frameTooLarge, writeFrame } from './frame.ts';
import { decodeError } from '../../errors/wire-error.ts';

export interface ConnectionOptions {
  readonly clock: Clock;
  readonly onHint: (channel: string) => void;
  /** Called once when an open connection is lost. */
  readonly onLost: () => void;
}

/**
 * A server that sends no greeting is stopped or wedged. Its longest statement should take less.
 */
const GREETING_WAIT_MS = 10_000;
/**
 * Several transactions of up to ten seconds each may have to end before a statement gets its turn;
 * a server that takes longer counts as lost, so that no call waits for ever for a stopped process.
 */
const REPLY_WAIT_MS = 60_000;

interface Pending {
  readonly resolve: (rows: readonly SqlRow[]) => void;
  readonly reject: (error: Error) => void;
  readonly cancelWait: () => void;
}

/**
 * One connection to a served database: connecting, then open, then lost for good. A request of a
 * lost connection is rejected and never sent again: it may have been carried out.
 */
export class RemoteConnection {
  readonly #socket: Socket;
  readonly #options: ConnectionOptions;
  readonly #pending = new Map<number, Pending>();
  #lastId = 0;

  private constructor(socket: Socket, options: ConnectionOptions) {
    this.#socket = socket;
    this.#options = options;
    socket.on('close', () => {
      for (const { reject, cancelWait } of this.#pending.values()) {
        cancelWait();
        reject(connectionLost());
      }
      this.#pending.clear();
      options.onLost();
    });
  }

  /** Resolves when the server has accepted the token. */
  static open(endpoint: Endpoint, options: ConnectionOptions): Promise<RemoteConnection> {
    return new Promise((resolve, reject) => {
      const socket = connect({ host: '127.0.0.1', port: endpoint.port, noDelay: true });
      const reader = new FrameReader(MAX_FRAME_BYTES);
      const cancelWait = options.clock.timer(GREETING_WAIT_MS, () => socket.destroy());
      let connection: RemoteConnection | undefined;
      const refuse = (cause: unknown): void => {
        cancelWait();
        reject(cannotConnect(endpoint.port, cause));
      };
      const onReply = (reply: Reply): void => {
        if (connection !== undefined) return connection.#onReply(reply);
        if (!('protocol' in reply) || reply.protocol !== PROTOCOL)
          throw new Error('not our server');
        cancelWait();
        socket.off('close', refuse);
        connection = new RemoteConnection(socket, options);
        resolve(connection);
      };
      socket.on('data', (chunk: Buffer) => {
        try {
          for (const frame of reader.read(chunk)) onReply(decodeReply(frame));
        } catch (error) {
          socket.destroy(error as Error);
        }
      });
      // On a wrong token the server closes without a reply.
      socket.on('close', refuse);
      socket.on('error', refuse);
      writeFrame(socket, Buffer.from(endpoint.token, 'hex'));
    });
  }

  async request(body: RequestBody): Promise<readonly SqlRow[]> {
    return await this.send(body).reply;
  }

  /** As `request`, and returns the id: a `begin` names its transaction by it. */
  send(body: RequestBody): { readonly id: number; readonly reply: Promise<readonly SqlRow[]> } {
    const id = ++this.#lastId;
    const reply = new Promise<readonly SqlRow[]>((resolve, reject) => {
      if (this.#socket.destroyed) throw connectionLost();
      const payload = encode({ ...body, id });
      if (payload.byteLength > MAX_FRAME_BYTES) {
        throw frameTooLarge(payload.byteLength, MAX_FRAME_BYTES);
      }
      const cancelWait = this.#options.clock.timer(REPLY_WAIT_MS, () => this.destroy());
      this.#pending.set(id, { resolve, reject, cancelWait });
      // How much may wait in the socket is bounded by how many callers wait for a reply.
      writeFrame(this.#socket, payload);
    });
    return { id, reply };
  }

  destroy(): void {
    this.#socket.destroy();
  }

  #onReply(reply: Reply): void {
    if ('hint' in reply) return this.#options.onHint(reply.hint);
    const pending = 'id' in reply ? this.#pending.get(reply.id) : undefined;
    if (!('id' in reply) || pending === undefined) return;
    this.#pending.delete(reply.id);
    pending.cancelWait();
    if ('error' in reply) pending.reject(decodeError(reply.error));
    else pending.resolve(reply.rows);
  }
}

function cannotConnect(port: number, cause: unknown): Error {
  return storeUnavailable(
    `No connection to the embedded database on port ${port} of this machine.`,
    'The process that holds the database has ended or is stopped: see whether `outlast dev` runs.',
    // 'close' passes a boolean, 'error' an error.
    cause instanceof Error ? cause : undefined,
  );
}

function connectionLost(): Error {
  return storeUnavailable(
    'The connection to the embedded database was lost before the reply, the outcome is unknown.',
    'Repeat it only if that is safe. The next call connects again.',
  );
}
