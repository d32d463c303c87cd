import type {
  DeadLetterDetails,
  DeadLetterPage,
  DeadLetterSummary,
  PageRequest,
} from '../../admin/read-model.ts';
import type {
  OutboxEntry,
  OutboxPage,
  OutboxReads,
  OutboxSample,
} from '../../outbox/outbox-reads.ts';
import { ROW_SCHEMA_VERSION } from '../../outbox/outbox-writer.ts';
import type { MysqlDatabase, MysqlRow } from './mysql-database.ts';
import { readBytes, readHistory, readInstant, readKey, readNumber } from './mysql-rows.ts';
import { SQL } from './sql.generated.ts';

/** What people see of an outbox in MySQL or MariaDB. */
export class MysqlOutboxReads implements OutboxReads {
  readonly #db: MysqlDatabase;

  constructor(db: MysqlDatabase) {
    this.#db = db;
  }

  async sample(top: number): Promise<OutboxSample> {
    const rows = await this.#db.rows(SQL.sampleOutbox, [ROW_SCHEMA_VERSION]);
    const [oldest] = await this.#db.rows(SQL.sampleOldest);
    const [letters] = await this.#db.rows(SQL.sampleLetters);
    const failing = await this.#db.rows(SQL.sampleFailing, [top]);
    const sumOf = (column: string, state?: OutboxEntry['state']): number =>
      rows
        .filter(row => state === undefined || row['state'] === state)
        .reduce((sum, row) => sum + Number(row[column]), 0);
    return {
      pending: sumOf('count', 'pending'),
      claimed: sumOf('count', 'claimed'),
      sent: sumOf('count', 'sent'),
      unsupported: sumOf('unsupported'),
      deadLetters: Number(letters?.['count']),
      oldestPendingMs: readNumber(oldest?.['oldest_ms']),
      queues: sumQueues(rows),
      topFailing: failing.map(row => ({
        name: row['name'] as string,
        failures: Number(row['failures']),
      })),
    };
  }

  async list(page: PageRequest): Promise<OutboxPage> {
    const rows = await this.#db.rows(SQL.outboxList, [BigInt(page.cursor ?? 0), page.limit + 1]);
    const items = rows.slice(0, page.limit).map(readEntry);
    return { items, next: rows.length > page.limit ? (items.at(-1)?.row ?? null) : null };
  }

  async find(id: string): Promise<OutboxEntry | null> {
    const [row] = await this.#db.rows(SQL.outboxFind, [id]);
    return row?.['id'] === id ? readEntry(row) : null;
  }

  async listDeadLetters(page: PageRequest): Promise<DeadLetterPage> {
    const [id, deadAt] = page.cursor === null ? [null, null] : splitCursor(page.cursor);
    const rows = await this.#db.rows(SQL.deadLettersList, [deadAt, id, page.limit + 1]);
    const items = rows.slice(0, page.limit).map(readSummary);
    // The cursor keeps the microseconds that a Date has not: cut off, rows of the same millisecond would be skipped.
    const last = rows[page.limit - 1];
    const next =
      rows.length > page.limit && last
        ? `${last['id'] as string} ${last['cursor_at'] as string}`
        : null;
    return { items, next };
  }

  async showDeadLetter(id: string): Promise<DeadLetterDetails | null> {
    const [row] = await this.#db.rows(SQL.deadLetterShow, [id]);
    if (row?.['id'] !== id) return null;
    return {
      ...readSummary(row),
      body: readBytes(row['body']),
      options: readBytes(row['options']),
      history: readHistory(row['error_history']),
    };
  }
}

/** The id, and the instant without the zone that it always has. */
function splitCursor(cursor: string): [string, string] {
  const at = cursor.indexOf(' ');
  return [cursor.slice(0, at), cursor.slice(at + 1).replace(/\+00$/, '')];
}

function sumQueues(rows: readonly MysqlRow[]): OutboxSample['queues'] {
  const queues = new Map<string, number>();
  for (const row of rows) {
    const queue = row['queue'] as string;
    queues.set(queue, (queues.get(queue) ?? 0) + Number(row['count']));
  }
  return [...queues].map(([queue, count]) => ({ queue, rows: count }));
}

function readEntry(row: MysqlRow): OutboxEntry {
  return {
    row: String(row['row_id']),
    id: row['id'] as string,
    name: row['name'] as string,
    queue: row['queue'] as string,
    state: row['state'] as OutboxEntry['state'],
    retries: Number(row['retries']),
    lastError: row['last_error'] as string | null,
    createdAt: readInstant(row['created_ms']),
    availableAt: readInstant(row['available_ms']),
    orderingKey: readKey(row['ordering_key']),
  };
}

function readSummary(row: MysqlRow): DeadLetterSummary {
  return {
    id: row['id'] as string,
    name: row['name'] as string,
    queue: row['queue'] as string,
    where: 'relay',
    reason: 'ERR_ATTEMPTS_SPENT',
    error: row['error'] as string,
    deadAt: readInstant(row['dead_ms']),
    version: Number(row['version']),
  };
}
