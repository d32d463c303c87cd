import type { Socket } from 'node:net';
import type { SqlDatabase, SqlRow } from '../postgres/sql-database.ts';
import { frameTooLarge, writeFrame } from './frame.ts';
import { HeldTransaction } from './held-transaction.ts';
import { transactionOver } from './run-limited.ts';
import { encode, type Reply, type Request } from './wire.ts';
import { encodeError } from './wire-error.ts';

/**
 * How many requests of one client may be under way. Beyond it nothing is read from that client, so
 * that its backlog waits in its own memory.
 */
const MAX_IN_FLIGHT = 256;

/** One authenticated client of a served database: its transactions and subscriptions end with it. */
export class RemoteSession {
  readonly #db: SqlDatabase;
  readonly #socket: Socket;
  readonly #maxFrameBytes: number;
  readonly #transactions = new Map<number, HeldTransaction>();
  readonly #subscriptions = new Map<string, () => void>();
  /** Channels hinted while the client did not read. One hint each is all it needs. */
  readonly #lateHints = new Set<string>();
  #inFlight = 0;
  #ended: Promise<void> | undefined;

  constructor(db: SqlDatabase, socket: Socket, maxFrameBytes: number) {
    this.#db = db;
    this.#socket = socket;
    this.#maxFrameBytes = maxFrameBytes;
    socket.on('drain', () => this.#drained());
  }

  /** Answers one request; requests are answered as they get done, not in order. */
  async handle(request: Request): Promise<void> {
    this.#inFlight++;
    this.#regulate();
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

  /** The client is gone. Resolves when its transactions are rolled back. */
  end(): Promise<void> {
    this.#ended ??= this.#end();
    return this.#ended;
  }

  async #end(): Promise<void> {
    for (const undo of this.#subscriptions.values()) undo();
    this.#subscriptions.clear();
    const open = [...this.#transactions.values()];
    this.#transactions.clear();
    await Promise.all(open.map(transaction => transaction.rollback()));
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
        // Only now may it leave the map: `end` has to find every transaction that is open.
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

  #drained(): void {
    const channels = [...this.#lateHints];
    this.#lateHints.clear();
    for (const channel of channels) this.#hint(channel);
    this.#regulate();
  }

  /**
   * Stops reading from a client that does not read its replies or asks for too much at once. Not by
   * number while it has a transaction: the message that ends it may stand behind those that wait for it.
   */
  #regulate(): void {
    const isBusy = this.#inFlight >= MAX_IN_FLIGHT && this.#transactions.size === 0;
    if (isBusy || this.#socket.writableNeedDrain) this.#socket.pause();
    else this.#socket.resume();
  }
}
