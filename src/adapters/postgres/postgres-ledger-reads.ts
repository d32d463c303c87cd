import type {
  DeadLetterDetails,
  DeadLetterPage,
  DeadLetterSummary,
  LetterPageRequest,
  TaskDetails,
} from '../../ledger/dead-letter.ts';
import type { LedgerReads, LedgerSample, TaskMoment } from '../../ledger/ledger-reads.ts';
import type { TaskState } from '../../ledger/ledger.ts';
import type { ObjectiveCounts, TaskTotals } from '../../ledger/tallies.ts';
import type { OpenChords } from '../../ledger/open-chord.ts';
import {
  tenantIn,
  type Slice,
  type TaskRecordView,
  type WalkRequest,
} from '../../ledger/task-line.ts';
import { shownPayload } from '../../task/redacted.ts';
import { openChords } from './postgres-chord.ts';
import { letterPage, letterParams, readHistory } from './postgres-letters.ts';
import { readFailing } from './postgres-outbox-reads.ts';
import { decodeError } from './postgres-rows.ts';
import { objectives, totals } from './postgres-tallies.ts';
import { view, walk } from './postgres-walk.ts';
import type { SqlDatabase, SqlRow } from '../sql/sql-database.ts';
import { SQL } from './sql.generated.ts';

/** The reads of a ledger in PostgreSQL, for people. */
export class PostgresLedgerReads implements LedgerReads {
  readonly #db: SqlDatabase;

  constructor(db: SqlDatabase) {
    this.#db = db;
  }

  async sample(top: number): Promise<LedgerSample> {
    const ended = (await this.#db.query(SQL.ledgerEnded))[0] ?? {};
    const queues = (await this.#db.query(SQL.ledgerQueues)).map(row => ({
      queue: row['queue'] as string,
      waiting: Number(row['waiting']),
      running: Number(row['running']),
    }));
    const failing = top === 0 ? [] : await this.#db.query(SQL.ledgerFailing, [top]);
    return {
      tasks: {
        waiting: queues.reduce((sum, { waiting }) => sum + waiting, 0),
        running: queues.reduce((sum, { running }) => sum + running, 0),
        done: Number(ended['done']),
        dead: Number(ended['dead']),
        cancelled: Number(ended['cancelled']),
        expired: Number(ended['expired']),
        purged: Number(ended['purged']),
      },
      queues,
      topFailing: failing.map(readFailing),
      workers: Number(ended['workers']),
    };
  }

  async listDead(page: LetterPageRequest): Promise<DeadLetterPage> {
    const text = page.order === 'newest' ? SQL.ledgerLettersNewest : SQL.ledgerLettersOldest;
    return letterPage(await this.#db.query(text, letterParams(page)), page.limit, readSummary);
  }

  async countDead(): Promise<number> {
    return Number((await this.#db.query(SQL.ledgerDead))[0]?.['dead']);
  }

  async countScheduled(queues: readonly string[]): Promise<number> {
    return Number((await this.#db.query(SQL.ledgerScheduled, [queues]))[0]?.['scheduled']);
  }

  async showDead(id: string): Promise<DeadLetterDetails | null> {
    const row = (await this.#db.query(SQL.ledgerLetter, [id]))[0];
    if (!row) return null;
    return {
      ...readSummary(row),
      expiresAt: row['expires'] as string | null,
      ...shownPayload({
        body: row['body'] as Uint8Array,
        options: row['options'] as Uint8Array,
        redactedArgs: null,
        redactedKwargs: null,
      }),
      history: readHistory(row['history'] as Uint8Array),
    };
  }

  async inspect(id: string): Promise<TaskDetails | null> {
    const row = (await this.#db.query(SQL.ledgerInspect, [id]))[0];
    return row ? readDetails(row) : null;
  }

  async view(id: string): Promise<TaskRecordView | null> {
    return await view(this.#db, id);
  }

  async walk(request: WalkRequest): Promise<Slice> {
    return await walk(this.#db, request);
  }

  async states(ids: readonly string[]): Promise<readonly (TaskState | null)[]> {
    const rows = await this.#db.query(SQL.ledgerStates, [ids]);
    const byId = new Map(rows.map(row => [row['id'] as string, row['state'] as TaskState]));
    return ids.map(id => byId.get(id) ?? null);
  }

  async recent(limit: number): Promise<readonly TaskDetails[]> {
    return (await this.#db.query(SQL.ledgerRecent, [limit])).map(readDetails);
  }

  async moments(ids: readonly string[]): Promise<readonly TaskMoment[]> {
    return (await this.#db.query(SQL.ledgerMoments, [ids])).map(row => ({
      id: row['id'] as string,
      version: row['version'] as number,
      process: row['process'] as string | null,
      checkpoint: row['checkpoint'] as Uint8Array | null,
      dueMs: Number(row['due_ms']),
    }));
  }

  async totals(): Promise<readonly TaskTotals[]> {
    return await totals(this.#db);
  }

  async objectives(): Promise<ObjectiveCounts> {
    return await objectives(this.#db);
  }

  async openChords(limit: number): Promise<OpenChords> {
    return await openChords(this.#db, limit);
  }
}

function readSummary(row: SqlRow): DeadLetterSummary {
  return {
    id: row['id'] as string,
    name: row['name'] as string,
    queue: row['queue'] as string,
    where: 'worker',
    reason: row['reason'] as string,
    error: decodeError(row['error'] as Uint8Array | null)?.message ?? '',
    deadAt: row['dead_at'] as string,
    version: row['version'] as number,
    createdAt: row['created'] as string,
    tenant: tenantIn(row['options'] as Uint8Array),
    orderingKey: null,
  };
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
    createdAt: row['created'] as string,
    history: readHistory(row['history'] as Uint8Array),
  };
}
