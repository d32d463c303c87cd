import {
  checkPosition,
  startOf,
  tenantIn,
  type Position,
  type Slice,
  type TaskLine,
  type TaskRecordView,
  type WalkRequest,
} from '../../ledger/task-line.ts';
import type { Ending } from '../../result/result-store.ts';
import { shownPayload } from '../../task/redacted.ts';
import type { SqlDatabase, SqlRow } from '../sql/sql-database.ts';
import { readHistory } from './postgres-letters.ts';
import { decodeError } from './postgres-rows.ts';
import { SQL } from './sql.generated.ts';

/** Waiting tasks are in three indexes, one after the other. */
const WAITING = [
  { kind: 'waiting', text: SQL.ledgerWalkWaiting, second: 'priority', least: '-32768' },
  { kind: 'suspects', text: SQL.ledgerWalkSuspects, second: 'priority', least: '-32768' },
  { kind: 'refused', text: SQL.ledgerWalkRefused, second: 'name', least: '' },
] as const;

const INSTANT = /^\d{4,6}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z$/;
const NUMBER = /^\d{1,18}$/;
const FORMS = {
  running: [/^[^\0]*$/],
  over: [INSTANT, /^[^\0]*$/],
  waiting: [/^(waiting|suspects)$/, /^[^\0]*$/, /^\d{1,4}$/, INSTANT, NUMBER],
  refused: [/^refused$/, /^[^\0]*$/, /^[^\0]*$/, INSTANT, NUMBER],
} as const;

/** A slice of one of the lists of a ledger in PostgreSQL. */
export async function walk(db: SqlDatabase, request: WalkRequest): Promise<Slice> {
  const { section, after, limit } = request;
  switch (section) {
    case 'waiting':
      return await walkWaiting(db, request);
    case 'running': {
      if (after !== null) checkPosition(after, FORMS.running);
      const rows = await db.query(SQL.ledgerWalkRunning, [after?.[0] ?? '', limit]);
      return rows.map(row => ({ task: readLine(row), at: [row['id'] as string] }));
    }
    case 'over': {
      if (after !== null) checkPosition(after, FORMS.over);
      const [kept = 'infinity', id = ''] = after ?? [];
      const rows = await db.query(SQL.ledgerWalkOver, [kept, id, limit]);
      const at = (row: SqlRow): Position => [row['kept'] as string, row['id'] as string];
      return rows.map(row => ({ task: readLine(row), at: at(row) }));
    }
  }
}

async function walkWaiting(db: SqlDatabase, { queue, after, limit }: WalkRequest): Promise<Slice> {
  if (after !== null) checkPosition(after, after[0] === 'refused' ? FORMS.refused : FORMS.waiting);
  const found: Slice[number][] = [];
  const first = after === null ? 0 : WAITING.findIndex(({ kind }) => kind === after[0]);
  for (const { kind, text, second, least } of WAITING.slice(first)) {
    const start = after?.[0] === kind ? after.slice(1) : [queue ?? '', least, '-infinity', '-1'];
    const rows = await db.query(text, [...start, limit - found.length]);
    for (const row of rows) {
      // The lists are sorted by queue first.
      if (queue !== null && row['queue'] !== queue) break;
      const at = [row['queue'], String(row[second]), row['due'], row['seq']] as string[];
      found.push({ task: readLine(row), at: [kind, ...at] });
    }
    if (found.length >= limit) break;
  }
  return found;
}

/** All that the ledger knows of a task. */
export async function view(db: SqlDatabase, id: string): Promise<TaskRecordView | null> {
  const row = (await db.query(SQL.ledgerView, [id]))[0];
  if (!row) return null;
  const shown = shownPayload({
    body: row['body'] as Uint8Array,
    options: row['options'] as Uint8Array,
    redactedArgs: null,
    redactedKwargs: null,
  });
  return {
    ...readLine(row),
    ...shown,
    // A body that was dropped is not one of which nothing may be seen.
    ...((row['body'] as Uint8Array).length === 0 ? { body: row['body'] as Uint8Array } : {}),
    history: readHistory(row['history'] as Uint8Array),
    ending: row['ending'] as Ending | null,
    result: row['result'] as Uint8Array | null,
    isSuspect: row['suspect'] === true,
    refusedBy: row['is_refused'] === true ? ((row['refused_by'] as string | null) ?? '') : null,
    nowMs: Number(row['now_ms']),
  };
}

function readLine(row: SqlRow): TaskLine {
  const state = row['state'] as TaskLine['state'];
  const start = state === 'running' ? startOf(lastLines(row['history'] as Uint8Array)) : null;
  return {
    id: row['id'] as string,
    name: row['name'] as string,
    queue: row['queue'] as string,
    state,
    epoch: Number(row['epoch']),
    failures: row['failures'] as number,
    crashes: row['crashes'] as number,
    createdAt: row['created'] as string,
    dueAt: state === 'waiting' ? toMs(row['due'] as string | null) : null,
    startedAt: start?.at ?? null,
    worker: row['owner'] as string | null,
    endedAt: row['ended'] as string | null,
    reason: row['reason'] as string | null,
    error: decodeError(row['error'] as Uint8Array | null)?.message ?? null,
    tenant: tenantIn(row['options'] as Uint8Array),
    orderingKey: null,
  };
}

/** The end of a history may begin in the middle of a line. */
function lastLines(bytes: Uint8Array): ReturnType<typeof readHistory> {
  const from = bytes.indexOf(10, Math.max(0, bytes.length - 1_024));
  const whole = bytes.length < 1_024 ? bytes : bytes.subarray(from + 1);
  return readHistory(whole);
}

const toMs = (instant: string | null): string | null => instant?.replace(/\d{3}Z$/, 'Z') ?? null;
