import type { Socket } from 'node:net';
import type { PostgresDatabase } from '../postgres/postgres-database.ts';
import type { SqlRow } from '../sql/sql-database.ts';
import { frameTooLarge, writeFrame } from './frame.ts';
import { HeldTransaction } from './held-transaction.ts';
import { transactionOver } from './run-limited.ts';
import { encode, type Reply, type Request } from './wire.ts';
import { encodeError } from '../../errors/wire-error.ts';

/**
 * How many requests of one client may be under way; one backend answers them one by one. Beyond it
 * nothing more is read from that client, so that further requests wait in its own memory.
 */
const MAX_IN_FLIGHT = 64;

/**
 * One authenticated client of a served database: its transactions and subscriptions end with it.
 */
export class RemoteSession {
  readonly #db: PostgresDatabase;
  readonly #socket: Socket;
  readonly #maxFrameBytes: number;
  readonly #transactions = new Map<number, HeldTransaction>();
  readonly #subscriptions = new Map<string, () => void>();
  /** Channels with hints while the client did not read. One hint each is enough. */
  readonly #lateHints = new Set<string>();
  /** Requests that were read together with others and whose turn has not come. */
  readonly #backlog: Request[] = [];
  #inFlight = 0;
  #ended: Promise<void> | undefined;

  constructor(db: PostgresDatabase, socket: Socket, maxFrameBytes: number) {
    this.#db = db;
    this.#socket = socket;
    this.#maxFrameBytes = maxFrameBytes;
    socket.on('drain', () => this.#onDrain());
  }

  /** Requests are answered when they are done, not in order. */
  receive(request: Request): void {
    this.#backlog.push(request);
    this.#regulate();
  }

  /** The client is gone. Resolves when its transactions are rolled back. */
  end(): Promise<void> {
    this.#ended ??= this.#end();
    return this.#ended;
  }

  async #end(): Promise<void> {
    this.#backlog.length = 0;
    for (const undo of this.#subscriptions.values()) undo();
    this.#subscriptions.clear();
    const open = [...this.#transactions.values()];
    this.#transactions.clear();
    await Promise.all(open.map(transaction => transaction.rollback()));
  }

  async #answer(request: Request): Promise<void> {
    this.#inFlight++;
    const { id } = request;
    try {
      const rows = await this.#run(request);
      this.#send({ id, rows });
    } catch (error) {
      this.#send({ id, error: encodeError(error) });
    } finally {
      this.#inFlight--;
      this.#regulate();
    }
  }

  async #run(request: Request): Promise<readonly SqlRow[]> {
    switch (request.op) {
      case 'query': {
        const runner = request.tx === null ? this.#db : this.#transaction(request.tx);
        return await runner.query(request.text, request.params);
      }
      case 'begin':
        await this.#begin(request.id);
        return [];
      case 'commit':
      case 'rollback': {
        const transaction = this.#transaction(request.tx);
        // Only now may it leave the map: `end` has to find every open transaction.
        try {
          await transaction[request.op]();
        } finally {
          this.#transactions.delete(request.tx);
        }
        return [];
      }
      case 'listen':
        this.#listen(request.channel);
        return [];
      case 'unlisten':
        this.#subscriptions.get(request.channel)?.();
        this.#subscriptions.delete(request.channel);
        return [];
    }
  }

  async #begin(id: number): Promise<void> {
    if (this.#ended !== undefined) throw transactionOver();
    const transaction = new HeldTransaction(this.#db);
    this.#transactions.set(id, transaction);
    try {
      await transaction.opened();
    } catch (error) {
      this.#transactions.delete(id);
      throw error;
    }
  }

  #transaction(id: number): HeldTransaction {
    const transaction = this.#transactions.get(id);
    if (transaction === undefined) throw transactionOver();
    return transaction;
  }

  #listen(channel: string): void {
    if (this.#ended !== undefined || this.#subscriptions.has(channel)) return;
    this.#subscriptions.set(
      channel,
      this.#db.listen(channel, () => this.#hint(channel)),
    );
  }

  #hint(channel: string): void {
    if (this.#socket.writableNeedDrain) this.#lateHints.add(channel);
    else this.#send({ hint: channel });
  }

  #send(reply: Reply): void {
    if (this.#socket.destroyed) return;
    const payload = encode(reply);
    if (payload.byteLength <= this.#maxFrameBytes) {
      writeFrame(this.#socket, payload);
      return;
    }
    if (!('id' in reply)) return;
    const error = frameTooLarge(payload.byteLength, this.#maxFrameBytes);
    writeFrame(this.#socket, encode({ id: reply.id, error: encodeError(error) }));
  }

  #onDrain(): void {
    const channels = [...this.#lateHints];
    this.#lateHints.clear();
    for (const channel of channels) this.#hint(channel);
    this.#regulate();
  }

  /** Begins requests that may begin, and reads more only when none is left that may not. */
  #regulate(): void {
    while (this.#mayBegin()) {
      const request = this.#backlog.shift();
      if (request === undefined) break;
      // It fails only on bytes that are no request, and then this is no client of ours.
      this.#answer(request).catch(() => this.#socket.destroy());
    }
    if (this.#mayBegin()) this.#socket.resume();
    else this.#socket.pause();
  }

  /**
   * Not while the client leaves its replies unread, and not too many at once; except while it has a
   * transaction, whose end may stand behind statements that wait for it.
   */
  #mayBegin(): boolean {
    if (this.#socket.writableNeedDrain) return false;
    return this.#inFlight < MAX_IN_FLIGHT || this.#transactions.size > 0;
  }
}
