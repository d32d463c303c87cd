import { letterReason } from '../../errors/letter-reason.ts';
import type {
  DeadLetterDetails,
  DeadLetterPage,
  DeadLetterSummary,
  LetterPageRequest,
  PageRequest,
} from '../../ledger/dead-letter.ts';
import type {
  OutboxEntry,
  OutboxPage,
  OutboxReads,
  OutboxSample,
  RowView,
} from '../../outbox/outbox-reads.ts';
import { ROW_SCHEMA_VERSION } from '../../outbox/outbox-writer.ts';
import { tenantIn } from '../../ledger/task-line.ts';
import { shownPayload } from '../../task/redacted.ts';
import { letterPage, letterParams, readHistory } from './postgres-letters.ts';
import { readNumber } from './postgres-rows.ts';
import type { SqlDatabase, SqlRow } from '../sql/sql-database.ts';
import { SQL } from './sql.generated.ts';

/** Beyond this many rows, the rows of a queue are estimated from a sample of this many. */
const COUNTED_ROWS = 100_000;

/** The reads of an outbox in PostgreSQL, for people. */
export class PostgresOutboxReads implements OutboxReads {
  readonly #db: SqlDatabase;

  constructor(db: SqlDatabase) {
    this.#db = db;
  }

  async sample(top: number): Promise<OutboxSample> {
    const row = (await this.#db.query(SQL.outboxSample, [ROW_SCHEMA_VERSION]))[0] ?? {};
    const count = (name: string): number => Number(row[name]);
    const [pending, claimed, sent] = [count('pending'), count('claimed'), count('sent')];
    const laterRows = pending - count('due') - count('backoff') - count('deferred');
    const laterTasks = count('tasks_later') - count('tasks_backoff');
    const failing = top === 0 ? [] : await this.#db.query(SQL.outboxFailing, [top]);
    return {
      pending,
      due: count('due') + count('tasks_due'),
      scheduled: laterRows + laterTasks,
      backoff: count('backoff') + count('tasks_backoff'),
      deferred: count('deferred'),
      claimed,
      sent,
      unsupported: count('unsupported'),
      deadLetters: count('dead'),
      oldestPendingMs: readNumber(row['oldest_ms']),
      queues: await this.#queues(pending + claimed + sent),
      topFailing: failing.map(readFailing),
    };
  }

  async #queues(total: number): Promise<OutboxSample['queues']> {
    const rows =
      total <= COUNTED_ROWS
        ? await this.#db.query(SQL.outboxQueues)
        : await this.#db.query(SQL.outboxQueuesSampled, [(100 * COUNTED_ROWS) / total, total]);
    return rows.map(row => ({ queue: row['queue'] as string, rows: Number(row['rows']) }));
  }

  async list({ limit, cursor }: PageRequest): Promise<OutboxPage> {
    const rows = await this.#db.query(SQL.outboxList, [ROW_SCHEMA_VERSION, cursor, limit + 1]);
    const items = rows.slice(0, limit).map(readEntry);
    return { items, next: rows.length > limit ? (items.at(-1)?.row ?? null) : null };
  }

  async recent(limit: number): Promise<readonly OutboxEntry[]> {
    return (await this.#db.query(SQL.outboxRecent, [ROW_SCHEMA_VERSION, limit])).map(readEntry);
  }

  async find(id: string): Promise<OutboxEntry | null> {
    const [row] = await this.#db.query(SQL.outboxFind, [ROW_SCHEMA_VERSION, id]);
    return row ? readEntry(row) : null;
  }

  async view(id: string): Promise<RowView | null> {
    const [row] = await this.#db.query(SQL.outboxView, [ROW_SCHEMA_VERSION, id]);
    if (!row) return null;
    const [parked, ahead] = [row['parked'] as string | null, row['behind'] as string | null];
    const front = parked ?? ahead;
    return {
      ...readEntry(row),
      ...shownPayload({
        body: row['body'] as Uint8Array,
        options: row['options'] as Uint8Array,
        redactedArgs: row['redacted_args'] as Uint8Array | null,
        redactedKwargs: row['redacted_kwargs'] as Uint8Array | null,
      }),
      claims: row['claims'] as number,
      claimedBy: row['claimed_by'] as string | null,
      isClaimOver: row['claim_over'] === true,
      etaAt: row['eta'] as string | null,
      behind: front === null ? null : { id: front, isParked: parked !== null },
      relays: Number(row['relays']),
      history: readHistory(row['history'] as Uint8Array),
      nowMs: Number(row['now_ms']),
    };
  }

  async listDeadLetters(page: LetterPageRequest): Promise<DeadLetterPage> {
    const text = page.order === 'newest' ? SQL.outboxLettersNewest : SQL.outboxLettersOldest;
    return letterPage(await this.#db.query(text, letterParams(page)), page.limit, readSummary);
  }

  async showDeadLetter(id: string): Promise<DeadLetterDetails | null> {
    const row = (await this.#db.query(SQL.outboxLetter, [id]))[0];
    if (!row) return null;
    return {
      ...readSummary(row),
      expiresAt: row['expires'] as string | null,
      ...shownPayload({
        body: row['body'] as Uint8Array,
        options: row['options'] as Uint8Array,
        redactedArgs: row['redacted_args'] as Uint8Array | null,
        redactedKwargs: row['redacted_kwargs'] as Uint8Array | null,
      }),
      history: readHistory(row['history'] as Uint8Array),
    };
  }
}

export function readFailing(row: SqlRow): { readonly name: string; readonly failures: number } {
  return { name: row['name'] as string, failures: Number(row['failures']) };
}

function readEntry(row: SqlRow): OutboxEntry {
  return {
    row: row['row'] as string,
    id: row['id'] as string,
    name: row['name'] as string,
    queue: row['queue'] as string,
    state: row['state'] as OutboxEntry['state'],
    isSupported: row['supported'] as boolean,
    retries: row['retries'] as number,
    lastError: row['last_error'] as string | null,
    createdAt: row['created'] as string,
    availableAt: row['available'] as string,
    orderingKey: row['ordering_key'] as string | null,
    tenant: tenantIn(row['options'] as Uint8Array),
  };
}

function readSummary(row: SqlRow): DeadLetterSummary {
  return {
    id: row['id'] as string,
    name: row['name'] as string,
    queue: row['queue'] as string,
    where: 'relay',
    reason: letterReason(row['error'] as string),
    error: row['error'] as string,
    deadAt: row['dead_at'] as string,
    version: row['version'] as number,
    createdAt: row['created'] as string,
    tenant: tenantIn(row['options'] as Uint8Array),
    orderingKey: row['ordering_key'] as string | null,
  };
}
