import type {
  DeadLetterDetails,
  DeadLetterPage,
  DeadLetterSummary,
  HistoryEntry,
  ReadModel,
  Stats,
  TaskDetails,
} from '../../admin/read-model.ts';
import { ROW_SCHEMA_VERSION } from '../../outbox/outbox-writer.ts';
import type { Where } from '../../telemetry/events.ts';
import { toText } from '../../task/json.ts';
import { decodeError } from './postgres-rows.ts';
import type { SqlDatabase, SqlRow } from './sql-database.ts';
import { SQL } from './sql.generated.ts';

type TaskSums = Record<'waiting' | 'running' | 'done' | 'dead' | 'cancelled', number>;

/** What the CLI and the dashboard see of a PostgreSQL. */
export class PostgresReadModel implements ReadModel {
  readonly #db: SqlDatabase;

  constructor(db: SqlDatabase) {
    this.#db = db;
  }

  async stats(top: number): Promise<Stats> {
    const outbox = (await this.#db.query(SQL.statsOutbox, [ROW_SCHEMA_VERSION]))[0] ?? {};
    const byQueue = await this.#db.query(SQL.statsTasks);
    const failing = await this.#db.query(SQL.statsFailing, [top]);
    const workers = (await this.#db.query(SQL.statsWorkers))[0] ?? {};
    const tasks: TaskSums = { waiting: 0, running: 0, done: 0, dead: 0, cancelled: 0 };
    for (const row of byQueue) tasks[row['state'] as keyof TaskSums] += Number(row['count']);
    const pending = Number(outbox['pending']);
    const claimed = Number(outbox['claimed']);
    return {
      queueDepth: pending + claimed,
      dlqCount: Number(outbox['dead']) + tasks.dead,
      oldestPendingSeconds:
        outbox['oldest_seconds'] === null ? null : Number(outbox['oldest_seconds']),
      outbox: {
        pending,
        claimed,
        sent: Number(outbox['sent']),
        unsupported: Number(outbox['unsupported']),
      },
      tasks,
      queues: sumQueues(byQueue),
      topFailing: failing.map(row => ({
        name: row['name'] as string,
        failures: Number(row['failures']),
      })),
      workers: Number(workers['count']),
    };
  }

  async listDeadLetters(page: {
    readonly limit: number;
    readonly cursor: string | null;
  }): Promise<DeadLetterPage> {
    const [id, deadAt] = page.cursor === null ? [null, null] : splitCursor(page.cursor);
    const rows = await this.#db.query(SQL.deadLettersList, [deadAt, id, page.limit + 1]);
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
    const row = (await this.#db.query(SQL.deadLetterShow, [id]))[0];
    if (!row) return null;
    return {
      ...readSummary(row),
      body: row['body'] as Uint8Array,
      options: row['options'] as Uint8Array,
      history: readHistory(row['history'] as Uint8Array),
    };
  }

  async inspect(id: string): Promise<TaskDetails | null> {
    const row = (await this.#db.query(SQL.inspectTask, [id]))[0];
    return row ? readDetails(row) : null;
  }

  async recent(limit: number): Promise<readonly TaskDetails[]> {
    return (await this.#db.query(SQL.recentTasks, [limit])).map(readDetails);
  }
}

function splitCursor(cursor: string): [string, string] {
  const at = cursor.indexOf(' ');
  return [cursor.slice(0, at), cursor.slice(at + 1)];
}

function sumQueues(rows: readonly SqlRow[]): Stats['queues'] {
  const queues = new Map<string, { queue: string; waiting: number; running: number }>();
  for (const row of rows) {
    const queue = row['queue'] as string;
    const sums = queues.get(queue) ?? { queue, waiting: 0, running: 0 };
    queues.set(queue, sums);
    if (row['state'] === 'waiting') sums.waiting += Number(row['count']);
    if (row['state'] === 'running') sums.running += Number(row['count']);
  }
  return [...queues.values()];
}

function readSummary(row: SqlRow): DeadLetterSummary {
  return {
    id: row['id'] as string,
    name: row['name'] as string,
    queue: row['queue'] as string,
    where: row['place'] as Where,
    reason: row['reason'] as string,
    error: decodeError(row['error'] as Uint8Array | null)?.message ?? '',
    deadAt: (row['dead_at'] as Date).toISOString(),
    version: row['version'] as number,
  };
}

function readHistory(bytes: Uint8Array): readonly HistoryEntry[] {
  const lines = toText(bytes)
    .split('\n')
    .filter(line => line !== '');
  return lines.map(line => JSON.parse(line) as HistoryEntry);
}

function readDetails(row: SqlRow): TaskDetails {
  return {
    id: row['id'] as string,
    name: row['name'] as string,
    queue: row['queue'] as string,
    state: row['state'] as TaskDetails['state'],
    epoch: Number(row['epoch']),
    failures: row['failures'] as number,
    crashes: row['crashes'] as number,
    createdAt: (row['created_at'] as Date).toISOString(),
    history: readHistory(row['history'] as Uint8Array),
  };
}
