import { BATCH_BYTES } from '../../ledger/batch-limits.ts';
import { slicesWithin } from '../../runtime/wakeable.ts';
import { isLimited } from '../../admission/limits.ts';
import type {
  ClaimRequest,
  MovedRow,
  MoveReply,
  OutboxRow,
  OutboxStore,
  PublishFailure,
  PurgeReply,
  PurgeRequest,
  ReviveStatus,
} from '../../outbox/outbox-store.ts';
import type { ReceiptStore } from '../../outbox/receipt-store.ts';
import { ROW_SCHEMA_VERSION } from '../../outbox/outbox-writer.ts';
import type { Clock } from '../../runtime/runtime.ts';
import type { Envelope } from '../../task/envelope.ts';
import type { MemoryLedger } from './memory-ledger.ts';
import {
  firstDueMs,
  OUTBOX_GUARDS,
  type OutboxGuards,
  type OutboxRecord,
  type RowExtras,
} from './memory-outbox-guards.ts';
import { choose, countByName } from './memory-purge.ts';
import { copyEnvelope } from './memory-record.ts';
import { MemoryReceiptStore } from './memory-receipt-store.ts';
import { MemoryTransaction } from './memory-transaction.ts';

const PLAIN_ROW: RowExtras = {
  orderingKey: null,
  parksKey: false,
  redacted: null,
  rowVersion: 1,
};

/** A row that was settled under a claim, and its owner at that time. */
export interface SettleEntry {
  readonly step: 'renew' | 'publish' | 'fail' | 'defer' | 'release';
  readonly id: string;
  readonly token: string;
  /** The token on the row; if it differs from `token`, another relay owned it. */
  readonly owner: string;
}

export interface MemoryOutboxOptions {
  /** The store's clock. */
  readonly clock: Pick<Clock, 'now'>;
  /** Given if outbox and ledger are one database: rows are then moved, not published. */
  readonly ledger?: Pick<MemoryLedger, 'receive' | 'state'>;
  readonly guards?: Partial<OutboxGuards>;
  /** Called with every row that is settled, in the order of the store. */
  readonly journal?: (entry: SettleEntry) => void;
}

/** The outbox in RAM: the writer's side with transactions, and the relay's side as the port defines it. */
export class MemoryOutboxStore implements OutboxStore {
  readonly rows: Map<number, OutboxRecord> = new Map();
  /** One row per task, like the unique key of the real table: a task written again while it waits is one task. */
  readonly #taskIds = new Set<string>();
  readonly deadLetters: Map<string, OutboxRecord> = new Map();
  readonly move: ((limit: number) => Promise<MoveReply>) | null;
  readonly receipts: ReceiptStore;
  readonly #clock: Pick<Clock, 'now'>;
  readonly #guards: OutboxGuards;
  readonly #journal: (entry: SettleEntry) => void;
  /** Of relays: until when. */
  readonly leases: Map<string, number> = new Map();
  readonly #hints = new Set<() => void>();
  #lastRow = 0;

  constructor(options: MemoryOutboxOptions) {
    const { ledger } = options;
    this.#clock = options.clock;
    this.#guards = { ...OUTBOX_GUARDS, ...options.guards };
    this.#journal = options.journal ?? (() => undefined);
    this.receipts = new MemoryReceiptStore({
      rows: this.rows,
      nowMs: () => this.nowMs,
      ownedOf: (token, rows) => this.#ownedOf(token, rows, 'publish'),
      remove: record => this.#remove(record),
    });
    this.move = ledger === undefined ? null : async limit => this.#move(limit, ledger);
  }

  begin(): MemoryTransaction {
    return new MemoryTransaction();
  }

  /** The store's clock. */
  get nowMs(): number {
    return this.#clock.now();
  }

  /** Writes tasks inside a transaction: they become visible when it commits. */
  write(
    tx: MemoryTransaction,
    envelopes: readonly Envelope[],
    extras: Partial<RowExtras> = {},
  ): void {
    const copies = envelopes.map(copyEnvelope);
    tx.write(() => {
      for (const envelope of copies) this.insert(envelope, { ...PLAIN_ROW, ...extras });
    });
  }

  /** Part of a commit: the row is visible from now on. */
  insert(envelope: Envelope, extras: RowExtras): void {
    this.#insert(envelope, extras);
    this.#hint();
  }

  async beat(relay: string, leaseMs: number): Promise<void> {
    this.leases.set(relay, this.#clock.now() + leaseMs);
  }

  async leave(relay: string): Promise<void> {
    this.leases.delete(relay);
  }

  async claim(request: ClaimRequest): Promise<readonly OutboxRow[]> {
    this.#returnLapsed();
    return withinBytes(this.#due(request.limit)).map(record => {
      record.state = 'claimed';
      record.token = request.token;
      record.relay = request.relay;
      record.claimedUntilMs = this.#clock.now() + request.staleMs;
      record.claims += 1;
      return {
        row: String(record.row),
        envelope: copyEnvelope(record.envelope),
        retries: record.retries,
        isFirstClaim: record.claims === 1,
        dueMs: this.#clock.now() - firstDueMs(record),
      };
    });
  }

  async renewClaim(token: string, staleMs: number): Promise<number> {
    const owned = this.#owned(token, 'renew');
    for (const record of owned) record.claimedUntilMs = this.#clock.now() + staleMs;
    return owned.length;
  }

  async settlePublished(token: string, rows: readonly string[]): Promise<number> {
    const owned = this.#ownedOf(token, rows, 'publish');
    for (const record of owned) this.#remove(record);
    return owned.length;
  }

  async settleFailed(token: string, failures: readonly PublishFailure[]): Promise<number> {
    let settled = 0;
    for (const { row, error, delayMs } of failures) {
      const [record] = this.#ownedOf(token, [row], 'fail');
      if (record === undefined) continue;
      record.retries += 1;
      record.lastError = error;
      this.#remember(record, delayMs === null ? 'dead' : 'failed', error);
      if (delayMs === null) this.#bury(record);
      else this.#free(record, delayMs);
      settled += 1;
    }
    return settled;
  }

  async defer(
    token: string,
    rows: readonly string[],
    delayMs: number | readonly number[],
  ): Promise<number> {
    const owned = this.#ownedOf(token, rows, 'defer');
    for (const record of owned) {
      const own = typeof delayMs === 'number' ? delayMs : delayMs[rows.indexOf(String(record.row))];
      this.#free(record, own ?? 0);
    }
    return owned.length;
  }

  async release(token: string): Promise<number> {
    const owned = this.#owned(token, 'release');
    for (const record of owned) this.#free(record, 0);
    if (owned.length > 0) this.#hint();
    return owned.length;
  }

  async withdraw(taskId: string, notify: (envelope: Envelope) => Promise<void>): Promise<boolean> {
    const pending = () =>
      [...this.rows.values()].find(
        ({ envelope, state }) => envelope.id === taskId && state === 'pending',
      );
    const seen = pending();
    if (seen === undefined) return false;
    await notify(seen.envelope);
    const found = pending();
    if (found === undefined) return false;
    this.#remove(found);
    return true;
  }

  async reviveDeadLetter(id: string, version: number): Promise<ReviveStatus> {
    const record = this.deadLetters.get(id);
    if (record === undefined) return 'absent';
    const isInTheWay = this.#taskIds.has(record.envelope.id);
    if (isInTheWay || !this.#guards.mayRevive(record, version)) return 'conflict';
    if ((record.envelope.expiresMs ?? Infinity) <= this.nowMs) return 'expired';
    this.deadLetters.delete(id);
    record.retries = 0;
    this.#free(record, 0);
    this.#remember(record, 'revived');
    // A letter that parked its key takes its old position; any other goes to the end.
    this.#put(record.parksKey ? record : { ...record, row: ++this.#lastRow });
    this.#hint();
    return 'ok';
  }

  async purgeDeadLetters(request: PurgeRequest): Promise<PurgeReply> {
    const letters = [...this.deadLetters].map(([id, { envelope, deadMs, createdMs }]) => ({
      id,
      name: envelope.name,
      deadMs,
      createdMs,
    }));
    const chosen = choose(letters, request, this.nowMs);
    if (!request.isDryRun) for (const { id } of chosen) this.deadLetters.delete(id);
    return countByName(chosen);
  }

  /** In SQL the writer's side prunes enqueue keys; here there are none. */
  async prune(): Promise<number> {
    return 0;
  }

  async nextDueMs(): Promise<number | null> {
    let next: number | null = null;
    for (const record of this.#unblocked()) {
      if (record.state !== 'pending') continue;
      const waitMs = Math.max(0, record.availableMs - this.#clock.now());
      if (next === null || waitMs < next) next = waitMs;
    }
    return next;
  }

  onReady(hint: () => void): () => void {
    this.#hints.add(hint);
    return () => void this.#hints.delete(hint);
  }

  #insert(envelope: Envelope, extras: RowExtras): void {
    if (this.#taskIds.has(envelope.id)) return;
    const nowMs = this.#clock.now();
    this.#put({
      ...extras,
      row: ++this.#lastRow,
      envelope,
      createdMs: nowMs,
      state: 'pending',
      availableMs: Math.max(nowMs, envelope.etaMs ?? nowMs),
      token: '',
      relay: '',
      claimedUntilMs: 0,
      claims: 0,
      sentMs: 0,
      retries: 0,
      history: [],
      lastError: null,
      deadMs: 0,
      version: 0,
    });
  }

  #put(record: OutboxRecord): void {
    this.rows.set(record.row, record);
    this.#taskIds.add(record.envelope.id);
  }

  #remove(record: OutboxRecord): void {
    this.rows.delete(record.row);
    this.#taskIds.delete(record.envelope.id);
  }

  /** Due rows, the longest due first. */
  #due(limit: number, mayFollow: (record: OutboxRecord) => boolean = () => false): OutboxRecord[] {
    const nowMs = this.#clock.now();
    const isDue = (record: OutboxRecord): boolean => this.#guards.isDue(record, nowMs);
    const due = this.#unblocked(record => isDue(record) && mayFollow(record)).filter(isDue);
    due.sort((a, b) => a.availableMs - b.availableMs || a.row - b.row);
    return due.slice(0, limit);
  }

  /**
   * Rows in a known format. Of rows with an ordering key only the first, and what may follow it in the same step; none while a
   * dead one parks the key.
   */
  #unblocked(mayFollow: (record: OutboxRecord) => boolean = () => false): OutboxRecord[] {
    const taken = new Set<string>();
    for (const { orderingKey, parksKey } of this.deadLetters.values()) {
      if (orderingKey !== null && parksKey) taken.add(orderingKey);
    }
    const inOrder = [...this.rows.values()];
    // A revived row was put at the end of the map; sort it by its number.
    inOrder.sort((a, b) => a.row - b.row);
    const begun = new Set<string>();
    return inOrder.filter(record => {
      const { orderingKey, rowVersion } = record;
      const isKnown = rowVersion <= ROW_SCHEMA_VERSION;
      if (orderingKey === null) return isKnown;
      if (taken.has(orderingKey)) return false;
      const goes = isKnown && mayFollow(record);
      if (!goes) taken.add(orderingKey);
      const isFirst = !begun.has(orderingKey);
      begun.add(orderingKey);
      return isKnown && (goes || isFirst);
    });
  }

  #returnLapsed(): void {
    const nowMs = this.#clock.now();
    for (const record of this.rows.values()) {
      const leaseUntilMs = this.leases.get(record.relay);
      if (this.#guards.isClaimOver(record, leaseUntilMs, nowMs)) this.#free(record, 0);
    }
  }

  #owned(token: string, step: SettleEntry['step']): OutboxRecord[] {
    const owned = [...this.rows.values()].filter(record => this.#guards.isOwned(record, token));
    return this.#reported(owned, token, step);
  }

  #ownedOf(token: string, rows: readonly string[], step: SettleEntry['step']): OutboxRecord[] {
    const named = rows
      .map(row => this.rows.get(Number(row)))
      .filter(record => record !== undefined);
    const owned = named.filter(record => this.#guards.isOwned(record, token));
    return this.#reported(owned, token, step);
  }

  #reported(owned: OutboxRecord[], token: string, step: SettleEntry['step']): OutboxRecord[] {
    for (const record of owned) {
      this.#journal({ step, id: record.envelope.id, token, owner: record.token });
    }
    return owned;
  }

  #free(record: OutboxRecord, deferMs: number): void {
    record.state = 'pending';
    record.token = '';
    record.relay = '';
    // Without a delay it keeps its position in the order.
    if (deferMs > 0) record.availableMs = this.#clock.now() + deferMs;
  }

  #bury(record: OutboxRecord): void {
    this.#remove(record);
    record.version += 1;
    record.deadMs = this.nowMs;
    const { id, digest } = record.envelope;
    const isTaken = this.deadLetters.has(id);
    // Two rows of one id: both are kept, since their bytes may differ.
    this.deadLetters.set(isTaken ? `${id}#${digest.slice(0, 16)}` : id, record);
  }

  #remember(record: OutboxRecord, step: string, error?: string): void {
    record.history.push({
      at: new Date(this.nowMs).toISOString(),
      step,
      epoch: 0,
      ...(error === undefined ? {} : { error: { type: 'publish', message: error, traceback: '' } }),
    });
  }

  #move(limit: number, ledger: Pick<MemoryLedger, 'receive' | 'state'>): MoveReply {
    this.#returnLapsed();
    const mayFollow = ({ envelope }: OutboxRecord): boolean => !isLimited(envelope.options);
    const rows = this.#due(limit, mayFollow).map((record): MovedRow => {
      const { id, name, queue, options } = record.envelope;
      if (isLimited(options) && !ledger.state.records.has(id))
        return { id, name, queue, answer: 'limited' };
      this.#remove(record);
      return { id, name, queue, answer: ledger.receive(record.envelope) };
    });
    return { rows };
  }

  #hint(): void {
    for (const hint of this.#hints) hint();
  }
}

/** As many as one answer carries, but always one row; the rest stay as they are. */
function withinBytes(due: readonly OutboxRecord[]): readonly OutboxRecord[] {
  const bytesOf = ({ envelope }: OutboxRecord): number => envelope.body.length;
  const [some = []] = slicesWithin(due, { count: due.length, bytes: BATCH_BYTES, bytesOf });
  return some;
}
