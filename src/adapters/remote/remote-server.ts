import { randomBytes, timingSafeEqual } from 'node:crypto';
import { type AddressInfo, type Server, type Socket, createServer } from 'node:net';
import { type Clock, systemClock } from '../../runtime/runtime.ts';
import type { PostgresDatabase } from '../postgres/postgres-database.ts';
import { type Endpoint, PROTOCOL, TOKEN_BYTES, decodeRequest, encode } from './wire.ts';
import { FrameReader, MAX_FRAME_BYTES, writeFrame } from './frame.ts';
import { RemoteSession } from './remote-session.ts';

export interface ServeOptions {
  readonly clock?: Clock;
  readonly maxFrameBytes?: number;
}

export interface ServedDatabase extends Endpoint {
  /** Ends every connection and rolls back the clients' open transactions. The database itself stays open. */
  close(): Promise<void>;
}

/** A client sends its token in its first packet; a connection that does not is none of ours. */
const TOKEN_WAIT_MS = 5_000;

/**
 * Lets other processes of this machine use a database that only this process may open. Listens on
 * loopback only, and answers only clients that know the token.
 */
export async function serveDatabase(
  db: PostgresDatabase,
  options: ServeOptions = {},
): Promise<ServedDatabase> {
  const door = new Door(db, options);
  const server = createServer({ noDelay: true }, socket => door.enter(socket));
  await listenOnLoopback(server);
  const { port } = server.address() as AddressInfo;
  const close = async (): Promise<void> => {
    const closed = new Promise<void>(resolve => server.close(() => resolve()));
    await Promise.all([door.close(), closed]);
  };
  return { port, token: door.token.toString('hex'), close };
}

function listenOnLoopback(server: Server): Promise<void> {
  return new Promise((resolve, reject) => {
    server.once('error', reject);
    server.listen(0, '127.0.0.1', () => {
      server.off('error', reject);
      // A connection that could not be accepted (no file descriptors left) is for the client to
      // repeat.
      server.on('error', () => undefined);
      resolve();
    });
  });
}

/** Checks the token of every connection and keeps track of the accepted ones. */
class Door {
  readonly token: Buffer = randomBytes(TOKEN_BYTES);
  readonly #db: PostgresDatabase;
  readonly #clock: Clock;
  readonly #maxFrameBytes: number;
  readonly #sockets = new Set<Socket>();
  readonly #sessions = new Set<RemoteSession>();

  constructor(db: PostgresDatabase, options: ServeOptions) {
    this.#db = db;
    this.#clock = options.clock ?? systemClock;
    this.#maxFrameBytes = options.maxFrameBytes ?? MAX_FRAME_BYTES;
  }

  enter(socket: Socket): void {
    this.#sockets.add(socket);
    const reader = new FrameReader(TOKEN_BYTES);
    const cancelWait = this.#clock.timer(TOKEN_WAIT_MS, () => socket.destroy());
    let session: RemoteSession | undefined;
    const onFrame = (frame: Buffer): void => {
      if (session !== undefined) {
        session.receive(decodeRequest(frame));
        return;
      }
      if (!this.#isToken(frame)) throw new Error('wrong token');
      cancelWait();
      reader.maxBytes = this.#maxFrameBytes;
      session = this.#admit(socket);
    };
    socket.on('data', (chunk: Buffer) => {
      try {
        for (const frame of reader.read(chunk)) onFrame(frame);
      } catch {
        // A wrong token, an oversized frame or bytes that are no message: there is nothing to answer.
        socket.destroy();
      }
    });
    // 'close' follows every error and does the clean-up.
    socket.on('error', () => undefined);
    socket.on('close', () => {
      cancelWait();
      this.#sockets.delete(socket);
      if (session !== undefined) void this.#leave(session);
    });
  }

  async close(): Promise<void> {
    for (const socket of this.#sockets) socket.destroy();
    await Promise.all([...this.#sessions].map(session => session.end()));
  }

  #admit(socket: Socket): RemoteSession {
    const session = new RemoteSession(this.#db, socket, this.#maxFrameBytes);
    this.#sessions.add(session);
    writeFrame(socket, encode({ protocol: PROTOCOL }));
    return session;
  }

  async #leave(session: RemoteSession): Promise<void> {
    await session.end();
    this.#sessions.delete(session);
  }

  #isToken(frame: Buffer): boolean {
    return frame.byteLength === TOKEN_BYTES && timingSafeEqual(frame, this.token);
  }
}
