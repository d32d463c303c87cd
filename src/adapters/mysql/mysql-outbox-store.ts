import { BATCH_BYTES } from '../../ledger/batch-limits.ts';
import { slicesWithin } from '../../runtime/wakeable.ts';
import type {
  ClaimRequest,
  OutboxRow,
  OutboxStore,
  PublishFailure,
  PurgeReply,
  PurgeRequest,
  ReviveStatus,
} from '../../outbox/outbox-store.ts';
import type { ReceiptStore } from '../../outbox/receipt-store.ts';
import { ROW_SCHEMA_VERSION } from '../../outbox/outbox-writer.ts';
import { ScanFloor } from '../../outbox/scan-floor.ts';
import type { Envelope } from '../../task/envelope.ts';
import { likePattern } from '../../task/glob.ts';
import { toBytes } from '../../task/json.ts';
import type { MysqlDatabase, MysqlRow, MysqlSession } from './mysql-database.ts';
import { isDuplicate } from './mysql-errors.ts';
import { MysqlReceiptStore } from './mysql-receipt-store.ts';
import { readNumber, readOutboxRow, rowNumbers } from './mysql-rows.ts';
import { SQL } from './sql.generated.ts';

/** How many rows of expired claims are returned at a time: they belong to a few relays. */
const RECLAIM_LIMIT = 1_000;
/** Keys of which a statement returns the first row, at least. */
const LEAST_KEYS = 100;
/** Before all keys: none is empty. */
const NO_KEY = Buffer.alloc(0);

interface Turn {
  afterKey: Buffer;
}

interface Claiming {
  readonly request: ClaimRequest;
  readonly floorMs: number | null;
  readonly turn: Turn;
}

/**
 * The relay's side of the outbox in MySQL and MariaDB. Rows are always locked by id in rising order, or skipped when
 * another relay has them, so two relays never wait for each other.
 */
export class MysqlOutboxStore implements OutboxStore {
  readonly #db: MysqlDatabase;
  readonly #floor: ScanFloor;
  /** Every key has its turn: a search for first rows goes on after the last one. */
  readonly #turn: Turn = { afterKey: NO_KEY };
  /** The ledger is never here: rows are published. */
  readonly move: null = null;
  readonly receipts: ReceiptStore;

  /** `monotonic` returns milliseconds of a clock that never jumps. */
  constructor(db: MysqlDatabase, monotonic: () => number = () => performance.now()) {
    this.#db = db;
    this.#floor = new ScanFloor(monotonic);
    this.receipts = new MysqlReceiptStore(db);
  }

  async beat(relay: string, leaseMs: number): Promise<void> {
    await this.#db.change(SQL.relayBeat, [relay, leaseMs]);
  }

  async leave(relay: string): Promise<void> {
    await this.#db.change(SQL.relayLeave, [relay]);
  }

  async claim(request: ClaimRequest): Promise<readonly OutboxRow[]> {
    const rows = await this.#floor.look(async floorMs => {
      if (floorMs === null) await this.#reclaim();
      const found = await this.#db.atomically(session =>
        claimRows(session, { request, floorMs, turn: this.#turn }),
      );
      return found.map(row => ({
        row,
        // The floor is about the others.
        availableMs: Number(row['is_keyed']) === 1 ? -Infinity : Number(row['available_ms']),
      }));
    });
    return rows.map(({ row }) => readOutboxRow(row)).toSorted((a, b) => compareRows(a.row, b.row));
  }

  async #reclaim(): Promise<void> {
    const over = await this.#db.rows(SQL.reclaim, [RECLAIM_LIMIT]);
    if (over.length === 0) return;
    await this.#db.atomically(async session => {
      const locked = await session.rows(SQL.reclaimLock, [numbersOf(over)]);
      if (locked.length > 0) await session.change(SQL.reclaimMark, [numbersOf(locked)]);
    });
  }

  async renewClaim(token: string, staleMs: number): Promise<number> {
    const rows = await this.#claimed(token);
    return rows.length === 0 ? 0 : await this.#db.change(SQL.renewClaim, [token, rows, staleMs]);
  }

  async settlePublished(token: string, rows: readonly string[]): Promise<number> {
    if (rows.length === 0) return 0;
    return await this.#db.change(SQL.settlePublished, [token, rowNumbers(rows)]);
  }

  async settleFailed(token: string, failures: readonly PublishFailure[]): Promise<number> {
    if (failures.length === 0) return 0;
    const sorted = failures.toSorted((a, b) => compareRows(a.row, b.row));
    return await this.#db.atomically(async session => {
      let count = 0;
      for (const failure of sorted) count += await settleOne(session, token, failure);
      return count;
    });
  }

  async defer(
    token: string,
    rows: readonly string[],
    delayMs: number | readonly number[],
  ): Promise<number> {
    if (rows.length === 0) return 0;
    const delays = rows.map((_, at) =>
      Math.round(typeof delayMs === 'number' ? delayMs : (delayMs[at] ?? 0)),
    );
    const given = [token, rowNumbers(rows), delays];
    return await this.#db.change(SQL.deferClaim, given);
  }

  async release(token: string): Promise<number> {
    const rows = await this.#claimed(token);
    if (rows.length === 0) return 0;
    // They are in their old positions.
    this.#floor.reset();
    return await this.#db.change(SQL.releaseClaim, [token, rows]);
  }

  async withdraw(taskId: string, tell: (envelope: Envelope) => Promise<void>): Promise<boolean> {
    const [row] = await this.#db.rows(SQL.withdrawLook, [taskId]);
    if (row === undefined) return false;
    await tell(readOutboxRow(row).envelope);
    return (await this.#db.change(SQL.withdrawRow, [taskId])) > 0;
  }

  async reviveDeadLetter(id: string, version: number): Promise<ReviveStatus> {
    return await this.#db.atomically(async session => {
      const [letter] = await session.rows(SQL.lockDeadLetter, [id]);
      if (letter?.['id'] !== id) return 'absent';
      if (Number(letter['version']) !== version) return 'conflict';
      if (Number(letter['is_expired']) === 1) return 'expired';
      try {
        await session.change(SQL.reviveDeadLetter, [id]);
      } catch (error) {
        if (isDuplicate(error)) return 'conflict';
        throw error;
      }
      await session.change(SQL.deleteDeadLetters, [[id]]);
      return 'ok';
    });
  }

  async purgeDeadLetters(request: PurgeRequest): Promise<PurgeReply> {
    const { olderThanDeadMs, olderThanCreatedMs, taskName, limit, isDryRun } = request;
    const which = [olderThanDeadMs, olderThanCreatedMs, likePattern(taskName)];
    if (isDryRun) {
      const rows = await this.#db.rows(SQL.countDeadLetters, which);
      return {
        counts: rows.map(row => ({ name: row['name'] as string, count: Number(row['count']) })),
      };
    }
    const gone = await this.#db.atomically(async session => {
      const found = await session.rows(SQL.purgeDeadLetters, [...which, limit]);
      const ids = found.map(row => row['id'] as string);
      if (ids.length > 0) await session.change(SQL.deleteDeadLetters, [ids.toSorted()]);
      return found;
    });
    return { counts: countByName(gone) };
  }

  async nextDueMs(): Promise<number | null> {
    const { floorMs } = this.#floor;
    const given = [ROW_SCHEMA_VERSION, floorMs === null ? null : Math.floor(floorMs)];
    const [row] = await this.#db.rows(SQL.outboxNextDue, given);
    return readNumber(row?.['wait_ms']);
  }

  async prune(limit: number): Promise<number> {
    return await this.#db.atomically(async session => {
      const found = await session.rows(SQL.pruneSendKeys, [limit]);
      const keys = found.map(row => row['key_hash'] as string);
      return keys.length === 0 ? 0 : await session.change(SQL.pruneSendKeysGone, [keys]);
    });
  }

  /** There are no commit notifications here: a relay looks when the next row is due, and every `idleTime`. */
  onReady(): () => void {
    return () => undefined;
  }

  async #claimed(token: string): Promise<readonly bigint[]> {
    return numbersOf(await this.#db.rows(SQL.claimedRows, [token]));
  }
}

/** Where there are both, rows with an ordering key and rows without have half of a claim each. */
async function claimRows(
  session: MysqlSession,
  { request, floorMs, turn }: Claiming,
): Promise<readonly MysqlRow[]> {
  const { relay, token, limit, staleMs } = request;
  const keyed = await lockKeyed(session, limit, turn.afterKey);
  const most = limit - Math.min(keyed.length, Math.floor(limit / 2));
  const floor = floorMs === null ? null : Math.floor(floorMs);
  const plain = await session.rows(SQL.claim, [most, ROW_SCHEMA_VERSION, floor]);
  const shared = keyed.slice(0, limit - plain.length);
  const isEnd = shared.length === keyed.length && keyed.length < limit;
  turn.afterKey = isEnd
    ? NO_KEY
    : ((shared.at(-1)?.['ordering_key'] as Buffer | undefined) ?? turn.afterKey);
  // As many as one answer should carry, but at least one; the rows behind stay as they are.
  const bytesOf = (row: MysqlRow): number => Number(row['bytes']);
  const found = [...shared, ...plain];
  const [some = []] = slicesWithin(found, { count: limit, bytes: BATCH_BYTES, bytesOf });
  if (some.length === 0) return [];
  const numbers = numbersOf(some);
  const rows = await session.rows(SQL.claimRows, [numbers]);
  await session.change(SQL.claimMark, [relay, token, staleMs, numbers]);
  return rows;
}

/** Locks first rows of keys that may go, from the key after this one on; from the beginning when there are none. */
async function lockKeyed(
  session: MysqlSession,
  limit: number,
  afterKey: Buffer,
): Promise<readonly MysqlRow[]> {
  const keys = Math.max(LEAST_KEYS, limit);
  const found: MysqlRow[] = [];
  let [from, after] = [afterKey, afterKey];
  for (;;) {
    const heads = await session.rows(SQL.claimHeads, [after, keys]);
    const given = [limit - found.length, numbersOf(heads), ROW_SCHEMA_VERSION];
    if (heads.length > 0) found.push(...(await session.rows(SQL.claimKeyed, given)));
    if (found.length === limit) return found;
    if (heads.length === keys) after = heads.at(-1)?.['ordering_key'] as Buffer;
    else if (found.length > 0 || from.length === 0) return found;
    else from = after = NO_KEY;
  }
}

async function settleOne(
  session: MysqlSession,
  token: string,
  failure: PublishFailure,
): Promise<number> {
  const row = BigInt(failure.row);
  const error = storable(failure.error);
  const line = errorLine(failure);
  if (failure.delayMs !== null) {
    const delayMs = Math.round(failure.delayMs);
    return await session.change(SQL.settleFailed, [token, row, error, delayMs, line]);
  }
  const [owned] = await session.rows(SQL.settleDeadLock, [token, row]);
  if (!owned) return 0;
  await session.change(SQL.settleDead, [token, row, error, line]);
  return await session.change(SQL.settleDeadRow, [token, row]);
}

/** An error message may have any length, the column does not. */
const storable = (text: string): string => text.replaceAll('\u0000', '\uFFFD').slice(0, 4_000);

/** A line of history without its beginning: the database adds the time. */
function errorLine(failure: PublishFailure): Uint8Array {
  const error = { type: 'publish', message: storable(failure.error), traceback: '' };
  const step = failure.delayMs === null ? 'dead' : 'failed';
  return toBytes(`${JSON.stringify({ step, epoch: 0, error }).slice(1)}\n`);
}

function countByName(rows: readonly MysqlRow[]): PurgeReply['counts'] {
  const counts = new Map<string, number>();
  for (const row of rows) {
    const name = row['name'] as string;
    counts.set(name, (counts.get(name) ?? 0) + 1);
  }
  return [...counts]
    .map(([name, count]) => ({ name, count }))
    .toSorted((a, b) => (a.name < b.name ? -1 : 1));
}

function numbersOf(rows: readonly MysqlRow[]): bigint[] {
  return rowNumbers(rows.map(row => String(row['row_id'])));
}

/** Row numbers are text: shorter is smaller, then by digits. */
function compareRows(a: string, b: string): number {
  return a.length - b.length || (a < b ? -1 : 1);
}
