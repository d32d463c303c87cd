import { BATCH_BYTES } from '../../ledger/batch-limits.ts';
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
import { ROW_SCHEMA_VERSION } from '../../outbox/outbox-writer.ts';
import type { ReceiptStore } from '../../outbox/receipt-store.ts';
import { ScanFloor } from '../../outbox/scan-floor.ts';
import { slicesWithin } from '../../runtime/wakeable.ts';
import type { Envelope } from '../../task/envelope.ts';
import { purgeParams, purgeReply } from './postgres-letters.ts';
import { PostgresReceiptStore } from './postgres-receipt-store.ts';
import { encodeError, readEnvelope, readNumber } from './postgres-rows.ts';
import type { PostgresDatabase } from './postgres-database.ts';
import type { SqlParam, SqlRow } from '../sql/sql-database.ts';
import { SQL } from './sql.generated.ts';

const COMMITTED_CHANNEL = 'outlast_outbox';

export interface OutboxStoreOptions {
  /** True if the ledger is in the same database: rows are then moved in one statement. */
  readonly movesIntoLedger: boolean;
  /** Milliseconds of a clock that never jumps. */
  readonly monotonic?: () => number;
}

/** The relay's side of the outbox in PostgreSQL. */
export class PostgresOutboxStore implements OutboxStore {
  readonly #db: PostgresDatabase;
  readonly #floor: ScanFloor;
  /** Every ordering key has its turn: a search for first rows goes on after this one. */
  #afterKey: string | null = null;
  readonly move: ((limit: number) => Promise<MoveReply>) | null;
  readonly receipts: ReceiptStore;

  constructor(db: PostgresDatabase, options: OutboxStoreOptions) {
    this.#db = db;
    this.#floor = new ScanFloor(options.monotonic ?? (() => performance.now()));
    this.receipts = new PostgresReceiptStore(db);
    this.move = options.movesIntoLedger ? limit => this.#move(limit) : null;
  }

  async beat(relay: string, leaseMs: number): Promise<void> {
    await this.#db.query(SQL.relayBeat, [relay, leaseMs]);
  }

  async leave(relay: string): Promise<void> {
    await this.#db.query(SQL.relayLeave, [relay]);
  }

  async claim(request: ClaimRequest): Promise<readonly OutboxRow[]> {
    const { relay, token, limit, staleMs } = request;
    const claimed = await this.#floor.look(async floorMs => {
      // Not with every claim: it reads all claims there are, dead ones too.
      if (floorMs === null) await this.#db.query(SQL.reclaim);
      const given = [
        relay,
        token,
        limit,
        staleMs,
        ROW_SCHEMA_VERSION,
        floorMs,
        BATCH_BYTES / limit,
      ];
      const found = await this.#claimInTurn(given);
      const rows = found.some(row => row['body'] === null)
        ? await this.#fitting(token, found)
        : found;
      return rows.map(row => ({
        row: readOutboxRow(row),
        // The floor is about the others.
        availableMs: row['is_keyed'] === true ? -Infinity : Number(row['available_us']) / 1_000,
      }));
    });
    return claimed.map(({ row }) => row).toSorted((a, b) => compareRows(a.row, b.row));
  }

  async #claimInTurn(given: readonly SqlParam[]): Promise<readonly SqlRow[]> {
    let found = await this.#db.query(SQL.claim, [...given, this.#afterKey]);
    // After the last key comes the first.
    if (found.length === 0 && this.#afterKey !== null)
      found = await this.#db.query(SQL.claim, [...given, null]);
    this.#afterKey = (found[0]?.['key_text'] ?? null) as string | null;
    return found;
  }

  /** For rows of which some are long: as many as one answer should carry, but at least one. The others are given back. */
  async #fitting(token: string, found: readonly SqlRow[]): Promise<readonly SqlRow[]> {
    const inOrder = found.toSorted((a, b) => compareRows(rowOf(a), rowOf(b)));
    const bytesOf = (row: SqlRow): number => Number(row['bytes']);
    const limits = { count: found.length, bytes: BATCH_BYTES, bytesOf };
    const [some = [], ...rest] = slicesWithin(inOrder, limits);
    if (rest.length > 0) await this.#db.query(SQL.unclaim, [token, rest.flat().map(rowOf)]);
    const long = some.filter(row => row['body'] === null).map(rowOf);
    const bodies = new Map<string, SqlRow>();
    for (const row of await this.#db.query(SQL.claimBodies, [token, long]))
      bodies.set(rowOf(row), row);
    // A row that another relay took from us meanwhile is not returned.
    return some.flatMap(row => {
      const body = row['body'] ?? bodies.get(rowOf(row))?.['body'];
      return body === undefined ? [] : [{ ...row, body }];
    });
  }

  async renewClaim(token: string, staleMs: number): Promise<number> {
    return (await this.#db.query(SQL.renewClaim, [token, staleMs])).length;
  }

  async settlePublished(token: string, rows: readonly string[]): Promise<number> {
    const [gone] = await this.#db.query(SQL.settlePublished, [token, rows]);
    // `move` looks for rows with a key from the floor on, too.
    if (gone?.['is_ordered'] === true && this.move !== null) this.#floor.reset();
    return gone?.['settled'] as number;
  }

  async settleFailed(token: string, failures: readonly PublishFailure[]): Promise<number> {
    const again = failures.filter(failure => failure.delayMs !== null);
    const dead = failures.filter(failure => failure.delayMs === null);
    let settled = 0;
    if (again.length > 0) {
      const delays = again.map(failure => Math.round(failure.delayMs ?? 0));
      const rows = await this.#db.query(SQL.settleFailed, [
        token,
        ...columns(again),
        delays,
        again.map(errorRecord),
      ]);
      settled += rows.length;
    }
    if (dead.length > 0) {
      const rows = await this.#db.query(SQL.settleDead, [
        token,
        ...columns(dead),
        dead.map(errorRecord),
      ]);
      this.#floor.reset();
      settled += rows.length;
    }
    return settled;
  }

  async defer(
    token: string,
    rows: readonly string[],
    delayMs: number | readonly number[],
  ): Promise<number> {
    const delays = rows.map((_, at) =>
      Math.round(typeof delayMs === 'number' ? delayMs : (delayMs[at] ?? 0)),
    );
    return (await this.#db.query(SQL.deferClaim, [token, rows, delays])).length;
  }

  async release(token: string): Promise<number> {
    const released = (await this.#db.query(SQL.releaseClaim, [token])).length;
    if (released > 0) this.#floor.reset();
    return released;
  }

  async withdraw(taskId: string, tell: (envelope: Envelope) => Promise<void>): Promise<boolean> {
    const [row] = await this.#db.query(SQL.withdrawLook, [taskId]);
    if (row === undefined) return false;
    await tell(readEnvelope(row));
    return (await this.#db.query(SQL.withdrawRow, [taskId])).length > 0;
  }

  async reviveDeadLetter(id: string, version: number): Promise<ReviveStatus> {
    const [row] = await this.#db.query(SQL.reviveDeadLetter, [id, version]);
    return row?.['status'] as ReviveStatus;
  }

  async purgeDeadLetters(request: PurgeRequest): Promise<PurgeReply> {
    const params = purgeParams(request);
    return purgeReply(
      request.isDryRun
        ? await this.#db.query(SQL.countDeadLetters, params)
        : await this.#db.query(SQL.purgeDeadLetters, [...params, request.limit]),
    );
  }

  async nextDueMs(): Promise<number | null> {
    const given = [ROW_SCHEMA_VERSION, this.#floor.floorMs];
    return readNumber((await this.#db.query(SQL.outboxNextDue, given))[0]?.['wait_ms']);
  }

  async prune(limit: number): Promise<number> {
    return (await this.#db.query(SQL.pruneSendKeys, [limit])).length;
  }

  onReady(hint: () => void): () => void {
    return this.#db.listen(COMMITTED_CHANNEL, hint);
  }

  async #move(limit: number): Promise<MoveReply> {
    const moved = await this.#floor.look(async floorMs => {
      // Rows that must pass a rate are claimed, also here; those of a dead relay are found as in `claim`.
      if (floorMs === null) await this.#db.query(SQL.reclaim);
      const rows = await this.#db.query(SQL.move, [limit, ROW_SCHEMA_VERSION, floorMs]);
      return rows.map(row => ({
        row: readMovedRow(row),
        availableMs: Number(row['available_us']) / 1_000,
        isOrdered: row['is_ordered'] as boolean,
      }));
    });
    // The next row of the key keeps its position before the floor, and so does a row that was left.
    if (moved.some(({ isOrdered, row }) => isOrdered || row.answer === 'limited'))
      this.#floor.reset();
    return { rows: moved.map(({ row }) => row) };
  }
}

/** PostgreSQL's text has no NUL; an error message may. */
const storable = (text: string): string => text.replaceAll('\u0000', '\uFFFD').slice(0, 4_000);

function columns(failures: readonly PublishFailure[]): [string[], string[]] {
  return [failures.map(failure => failure.row), failures.map(failure => storable(failure.error))];
}

const errorRecord = (failure: PublishFailure): Uint8Array =>
  encodeError({ type: 'publish', message: storable(failure.error), traceback: '' });

function readOutboxRow(row: SqlRow): OutboxRow {
  return {
    row: row['row'] as string,
    retries: row['retries'] as number,
    isFirstClaim: row['claims'] === 1,
    dueMs: Math.max(0, Number(row['due_ms'])),
    envelope: readEnvelope(row),
  };
}

function readMovedRow(row: SqlRow): MovedRow {
  return {
    id: row['id'] as string,
    name: row['name'] as string,
    queue: row['queue'] as string,
    answer: row['answer'] as MovedRow['answer'],
  };
}

/** Row numbers are text: shorter is smaller, then by digits. */
function compareRows(a: string, b: string): number {
  return a.length - b.length || (a < b ? -1 : 1);
}

const rowOf = (row: SqlRow): string => row['row'] as string;
