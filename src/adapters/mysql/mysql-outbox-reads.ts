import { letterReason } from '../../errors/letter-reason.ts';
import {
  cursorAfter,
  readCursor,
  type DeadLetterDetails,
  type DeadLetterPage,
  type DeadLetterSummary,
  type LetterPageRequest,
  type PageRequest,
} from '../../ledger/dead-letter.ts';
import type {
  OutboxEntry,
  OutboxPage,
  OutboxReads,
  OutboxSample,
  RowView,
} from '../../outbox/outbox-reads.ts';
import { ROW_SCHEMA_VERSION } from '../../outbox/outbox-writer.ts';
import { likePattern } from '../../task/glob.ts';
import { tenantIn } from '../../ledger/task-line.ts';
import { shownPayload } from '../../task/redacted.ts';
import type { MysqlDatabase, MysqlRow } from './mysql-database.ts';
import {
  readBytes,
  readHistory,
  readInstant,
  readKey,
  readNumber,
  readOptionalBytes,
} from './mysql-rows.ts';
import { SQL } from './sql.generated.ts';

/** Beyond this many rows, the rows of a queue are estimated from a sample of this many. */
const COUNTED_ROWS = 100_000;

/** The reads of an outbox in MySQL or MariaDB, for people. */
export class MysqlOutboxReads implements OutboxReads {
  readonly #db: MysqlDatabase;

  constructor(db: MysqlDatabase) {
    this.#db = db;
  }

  async sample(top: number): Promise<OutboxSample> {
    const rows = await this.#db.rows(SQL.outboxSample, [ROW_SCHEMA_VERSION]);
    const [letters] = await this.#db.rows(SQL.outboxLetterCount);
    const failing = top === 0 ? [] : await this.#db.rows(SQL.outboxFailing, [top]);
    const rowOf = (state: OutboxEntry['state']): MysqlRow =>
      rows.find(row => row['state'] === state) ?? {};
    const countOf = (row: MysqlRow, column = 'count'): number => Number(row[column] ?? 0);
    const [waiting, held, published] = [rowOf('pending'), rowOf('claimed'), rowOf('sent')];
    const [pending, claimed, sent] = [countOf(waiting), countOf(held), countOf(published)];
    const due = countOf(waiting, 'due');
    const backoff = countOf(waiting, 'backoff');
    const deferred = countOf(waiting, 'deferred');
    // Below zero: the first moment of every row is still to come.
    const ages = [waiting, held].flatMap(row => readNumber(row['oldest_ms']) ?? []);
    const ripe = ages.filter(ageMs => ageMs >= 0);
    return {
      pending,
      due,
      scheduled: pending - due - backoff - deferred,
      backoff,
      deferred,
      claimed,
      sent,
      unsupported: rows.reduce((sum, row) => sum + Number(row['unsupported']), 0),
      deadLetters: Number(letters?.['count']),
      oldestPendingMs: ripe.length === 0 ? null : Math.max(...ripe),
      queues: await this.#queues(pending + claimed + sent),
      topFailing: failing.map(row => ({
        name: row['name'] as string,
        failures: Number(row['failures']),
      })),
    };
  }

  async #queues(total: number): Promise<OutboxSample['queues']> {
    const rows =
      total <= COUNTED_ROWS
        ? await this.#db.rows(SQL.outboxQueues)
        : await this.#db.rows(SQL.outboxQueuesSampled, [COUNTED_ROWS / 2, total]);
    return rows.map(row => ({ queue: row['queue'] as string, rows: Number(row['count']) }));
  }

  async list({ limit, cursor }: PageRequest): Promise<OutboxPage> {
    const given = [ROW_SCHEMA_VERSION, BigInt(cursor ?? 0), limit + 1];
    const rows = await this.#db.rows(SQL.outboxList, given);
    const items = rows.slice(0, limit).map(readEntry);
    return { items, next: rows.length > limit ? (items.at(-1)?.row ?? null) : null };
  }

  async recent(limit: number): Promise<readonly OutboxEntry[]> {
    return (await this.#db.rows(SQL.outboxRecent, [ROW_SCHEMA_VERSION, limit])).map(readEntry);
  }

  async find(id: string): Promise<OutboxEntry | null> {
    const [row] = await this.#db.rows(SQL.outboxFind, [ROW_SCHEMA_VERSION, id]);
    return row?.['id'] === id ? readEntry(row) : null;
  }

  async view(id: string): Promise<RowView | null> {
    const [row] = await this.#db.rows(SQL.outboxView, [ROW_SCHEMA_VERSION, id]);
    if (row?.['id'] !== id) return null;
    const [parked, ahead] = [row['parked'] as string | null, row['behind'] as string | null];
    const front = parked ?? ahead;
    return {
      ...readEntry(row),
      ...shownPayload({
        body: readBytes(row['body']),
        options: readBytes(row['options']),
        redactedArgs: readOptionalBytes(row['redacted_args']),
        redactedKwargs: readOptionalBytes(row['redacted_kwargs']),
      }),
      claims: Number(row['claims']),
      claimedBy: row['claimed_by'] as string | null,
      isClaimOver: Number(row['claim_over']) === 1,
      etaAt: row['eta_ms'] === null ? null : readInstant(row['eta_ms']),
      behind: front === null ? null : { id: front, isParked: parked !== null },
      relays: Number(row['relays']),
      history: readHistory(row['history']),
      nowMs: Number(row['now_ms']),
    };
  }

  async listDeadLetters(page: LetterPageRequest): Promise<DeadLetterPage> {
    const { cursor, taskName, limit, order } = page;
    const place = cursor === null ? null : readCursor(cursor);
    const deadAt = place === null ? null : place.deadAt.replace('T', ' ').replace('Z', '');
    const statement = order === 'newest' ? SQL.outboxLettersNewest : SQL.outboxLettersOldest;
    const given = [deadAt, place?.id ?? null, likePattern(taskName), limit + 1];
    const rows = await this.#db.rows(statement, given);
    const items = rows.slice(0, limit).map(readSummary);
    const last = items.at(-1);
    return { items, next: rows.length > limit && last ? cursorAfter(last) : null };
  }

  async showDeadLetter(id: string): Promise<DeadLetterDetails | null> {
    const [row] = await this.#db.rows(SQL.outboxLetter, [id]);
    if (row?.['id'] !== id) return null;
    return {
      ...readSummary(row),
      expiresAt: row['expires_ms'] === null ? null : readInstant(row['expires_ms']),
      ...shownPayload({
        body: readBytes(row['body']),
        options: readBytes(row['options']),
        redactedArgs: readOptionalBytes(row['redacted_args']),
        redactedKwargs: readOptionalBytes(row['redacted_kwargs']),
      }),
      history: readHistory(row['history']),
    };
  }
}

function readEntry(row: MysqlRow): OutboxEntry {
  return {
    row: String(row['row_id']),
    id: row['id'] as string,
    name: row['name'] as string,
    queue: row['queue'] as string,
    state: row['state'] as OutboxEntry['state'],
    isSupported: Number(row['supported']) === 1,
    retries: Number(row['retries']),
    lastError: row['last_error'] as string | null,
    createdAt: readInstant(row['created_ms']),
    availableAt: readInstant(row['available_ms']),
    orderingKey: readKey(row['ordering_key']),
    tenant: tenantIn(readBytes(row['options'])),
  };
}

function readSummary(row: MysqlRow): DeadLetterSummary {
  return {
    id: row['id'] as string,
    name: row['name'] as string,
    queue: row['queue'] as string,
    where: 'relay',
    reason: letterReason(row['error'] as string),
    error: row['error'] as string,
    deadAt: row['dead_at'] as string,
    version: Number(row['version']),
    createdAt: readInstant(row['created_ms']),
    tenant: tenantIn(readBytes(row['options'])),
    orderingKey: readKey(row['ordering_key']),
  };
}
