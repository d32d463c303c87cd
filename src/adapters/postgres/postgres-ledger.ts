import type {
  AfterLog,
  BeginReply,
  BeginRequest,
  BegunTask,
  BuryItem,
  CancelStatus,
  ChordAnswer,
  ChordPart,
  CommitItem,
  CondemnReply,
  CondemnTarget,
  FailItem,
  Ledger,
  LiftReply,
  MessageAnswer,
  ParkItem,
  ReapReply,
  ReleaseItem,
  RenewReply,
  RunRef,
  StepStatus,
  TaskRef,
  WorkerOpening,
} from '../../ledger/ledger.ts';
import type { Envelope } from '../../task/envelope.ts';
import { noFaults, type FaultPoint } from '../../runtime/fault-point.ts';
import type { PurgeReply, PurgeRequest, ReviveStatus } from '../../outbox/outbox-store.ts';
import {
  encodeError,
  encodeOutcome,
  readEnvelope,
  readNumber,
  taskColumns,
} from './postgres-rows.ts';
import { decodeAfter, encodeAfter } from './postgres-after.ts';
import { abandonChords, closeChord, joinChord, pruneChords } from './postgres-chord.ts';
import { purgeParams, purgeReply } from './postgres-letters.ts';
import { park } from './postgres-park.ts';
import type { SqlDatabase, SqlRow } from './sql-database.ts';
import { SQL } from './sql.generated.ts';

/** How long the tombstone of a cancelled or purged task turns away its copies. */
const WITHDRAWN_KEEP_MS = 86_400_000;

const READY_CHANNEL = 'outlast_task';

/** The ledger in PostgreSQL: each step is one statement that compares task, epoch, run and state. */
export class PostgresLedger implements Ledger {
  readonly #db: SqlDatabase;
  readonly #faultPoint: FaultPoint;
  readonly after: AfterLog;

  constructor(db: SqlDatabase, faultPoint: FaultPoint = noFaults) {
    this.#db = db;
    this.#faultPoint = faultPoint;
    this.after = {
      list: async (olderThanMs, limit) => {
        const rows = await db.query(SQL.afterList, [olderThanMs, limit]);
        return rows.map(row => decodeAfter(row['key'] as string, row['entry'] as Uint8Array));
      },
      strike: async keys => {
        if (keys.length > 0) await db.query(SQL.afterStrike, [keys]);
      },
    };
  }

  async open(opening: WorkerOpening): Promise<void> {
    const { worker, process, host, pid, leaseMs } = opening;
    await this.#db.query(SQL.openWorker, [worker, process, host, pid, leaseMs]);
  }

  async begin(request: BeginRequest): Promise<BeginReply> {
    const ofMessages =
      request.messages.length > 0 ? await this.#beginMessages(request) : NO_MESSAGES;
    if (ofMessages === null) return { status: 'closed' };
    const suspects = Math.max(
      0,
      request.suspects - ofMessages.begun.filter(task => task.isSuspect).length,
    );
    const { worker, run, queues, limit } = request;
    if (limit === 0 && ofMessages.begun.length > 0)
      return { status: 'open', ...ofMessages, expired: [], nextDueMs: null };
    const rows = await this.#db.query(SQL.beginDue, [
      worker,
      run,
      queues,
      limit,
      suspects,
      JSON.stringify(request.crashBudgets),
      [...ofMessages.ids],
    ]);
    if (rows[0]?.['open'] !== '1') return { status: 'closed' };
    const handed = rows.filter(row => row['id'] !== null);
    const due = handed.filter(row => row['late'] === false).map(readBegun);
    const begun = [...ofMessages.begun, ...due];
    return {
      status: 'open',
      begun,
      answers: ofMessages.answers,
      expired: handed.filter(row => row['late'] === true).map(readRef),
      nextDueMs: begun.length > 0 ? null : await this.#nextDueMs(queues, suspects),
    };
  }

  /** Null when the incarnation is closed. */
  async #beginMessages(request: BeginRequest): Promise<MessagesBegun | null> {
    const { worker, run, messages } = request;
    const budgets = JSON.stringify(request.crashBudgets);
    const columns = taskColumns(messages);
    const put = await this.#db.query(SQL.beginNew, [worker, run, budgets, ...columns]);
    if (put.length === messages.length) return allNew(messages, run);
    if (put.length > 0) await this.#faultPoint('ledger.begun-in-part');
    // It finds what was just put in as begun by this run, as it would after a lost reply.
    const asked = [worker, run, budgets, request.suspects, ...columns];
    let rows = await this.#db.query(SQL.beginMessages, asked);
    if (rows[0]?.['open'] !== '1') return null;
    if (rows.some(row => row['answer'] === null)) {
      const ids = messages.map(message => message.id);
      const digests = messages.map(message => message.digest);
      rows = await this.#db.query(SQL.beginAnswers, [worker, run, ids, digests]);
    }
    // The same message may come twice in one batch: one run answers both.
    const byId = new Map<string, BegunTask>();
    for (const [place, row] of rows.entries()) {
      const envelope = messages[place] as Envelope;
      if (row['answer'] === 'begun') byId.set(envelope.id, readRunning(row, envelope, run));
    }
    return {
      begun: [...byId.values()],
      ids: new Set(byId.keys()),
      answers: rows.map(row => row['answer'] as MessageAnswer),
    };
  }

  async #nextDueMs(queues: readonly string[], suspects: number): Promise<number | null> {
    const rows = await this.#db.query(SQL.ledgerNextDue, [queues, suspects]);
    return readNumber(rows[0]?.['wait_ms'] ?? null);
  }

  async renew(worker: string): Promise<RenewReply> {
    const rows = await this.#db.query(SQL.renew, [worker]);
    if (rows.length === 0) return { status: 'closed' };
    return { status: 'open', runs: rows.filter(row => row['id'] !== null).map(readRun) };
  }

  async checkpoint(run: RunRef, seq: number, data: Uint8Array): Promise<StepStatus> {
    const rows = await this.#db.query(SQL.checkpoint, [run.id, run.epoch, run.run, seq, data]);
    return rows[0]?.['status'] as StepStatus;
  }

  async lift({ id, epoch, run }: RunRef, above: number): Promise<LiftReply> {
    const [row] = await this.#db.query(SQL.lift, [id, epoch, run, above]);
    const status = row?.['status'] as LiftReply['status'];
    return status === 'ok' ? { status, epoch: Number(row?.['epoch']) } : { status };
  }

  async commit(items: readonly CommitItem[]): Promise<readonly StepStatus[]> {
    const outcomes = items.map(item => encodeOutcome(item.outcome));
    const after = items.flatMap(item => item.after.map(entry => ({ ref: item.ref, entry })));
    const refs = items.map(item => item.ref);
    const columns = [
      outcomes.map(outcome => outcome.ending),
      outcomes.map(outcome => outcome.result),
      outcomes.map(outcome => outcome.error),
      items.map((item, index) =>
        Math.max(item.dedupMs, outcomes[index]?.result ? item.resultMs : 0),
      ),
    ];
    if (after.length === 0) {
      const ended = await this.#step(SQL.commitPlain, refs, columns);
      // Runs that were settled before, or are others' now: the statement with all answers tells which.
      if (ended.length === items.length) return ended;
      if (ended.length > 0) await this.#faultPoint('ledger.committed-in-part');
    }
    return await this.#step(SQL.commit, refs, [
      ...columns,
      after.map(({ ref }) => ref.id),
      after.map(({ ref }) => ref.run),
      after.map(({ entry }) => entry.key),
      after.map(({ entry }) => encodeAfter(entry)),
    ]);
  }

  async fail(items: readonly FailItem[]): Promise<readonly StepStatus[]> {
    return await this.#step(
      SQL.fail,
      items.map(item => item.ref),
      [
        items.map(item => encodeError(item.error)),
        items.map(item => (item.delayMs === null ? null : Math.round(item.delayMs))),
        items.map(item => item.reason),
        items.map(item => item.isCrash ?? false),
      ],
    );
  }

  async release(items: readonly ReleaseItem[]): Promise<readonly StepStatus[]> {
    const delays = items.map(({ delayMs }) => (delayMs === undefined ? null : Math.round(delayMs)));
    return await this.#step(SQL.release, items, [delays]);
  }

  async wake(ids: readonly string[]): Promise<void> {
    if (ids.length > 0) await this.#db.query(SQL.wake, [ids]);
  }

  /** Every step of a run names the same three things first, and answers with one status per run. */
  async #step(
    text: string,
    refs: readonly RunRef[],
    rest: Parameters<SqlDatabase['query']>[1] & object,
  ): Promise<readonly StepStatus[]> {
    if (refs.length === 0) return [];
    const names = [refs.map(ref => ref.id), refs.map(ref => ref.epoch), refs.map(ref => ref.run)];
    const rows = await this.#db.query(text, [...names, ...rest]);
    return rows.map(row => row['status'] as StepStatus);
  }

  async park(items: readonly ParkItem[]): Promise<void> {
    await park(this.#db, items);
  }

  async bury(items: readonly BuryItem[]): Promise<readonly StepStatus[]> {
    const runs = items.filter(item => item.kind === 'run');
    const messages = items.filter(item => item.kind === 'message');
    const statuses = await this.#step(
      SQL.buryRuns,
      runs.map(item => item.ref),
      [runs.map(item => item.reason), runs.map(item => encodeError(item.error))],
    );
    if (messages.length > 0) {
      const columns = taskColumns(messages.map(item => item.envelope)).slice(0, 8);
      await this.#db.query(SQL.buryMessages, [
        ...columns,
        messages.map(item => item.reason),
        messages.map(item => encodeError(item.error)),
      ]);
    }
    const ofRuns = statuses.values();
    return items.map(item => (item.kind === 'run' ? (ofRuns.next().value as StepStatus) : 'ok'));
  }

  async condemn(target: CondemnTarget): Promise<CondemnReply> {
    const rows = await this.#condemn(target);
    return {
      workers: rows.filter(row => row['id'] !== null).map(row => row['id'] as string),
      storeMs: Number(rows[0]?.['store_ms']),
    };
  }

  async #condemn(target: CondemnTarget): Promise<readonly SqlRow[]> {
    switch (target.kind) {
      case 'expired':
        return await this.#db.query(SQL.condemnExpired);
      case 'process':
        return await this.#db.query(SQL.condemnProcess, [target.process]);
      case 'worker':
        return await this.#db.query(SQL.condemnWorker, [target.worker]);
    }
  }

  async reap(limit: number): Promise<ReapReply> {
    const rows = await this.#db.query(SQL.reap, [limit]);
    const refs = (state: string) =>
      rows
        .filter(row => row['state'] === state)
        .map(row => ({ ...readRef(row), crashes: row['crashes'] as number }));
    const [returned, buried] = [refs('waiting'), refs('dead')];
    return {
      returned,
      buried,
      more: returned.length + buried.length === limit,
      storeMs: Number(rows[0]?.['store_ms']),
    };
  }

  async revive(id: string, version: number): Promise<ReviveStatus> {
    const rows = await this.#db.query(SQL.revive, [id, version]);
    return rows[0]?.['status'] as ReviveStatus;
  }

  async purgeDead(request: PurgeRequest): Promise<PurgeReply> {
    const params = purgeParams(request);
    return purgeReply(
      request.isDryRun
        ? await this.#db.query(SQL.countDead, params)
        : await this.#db.query(SQL.purgeDead, [...params, request.limit, WITHDRAWN_KEEP_MS]),
    );
  }

  async cancel(id: string): Promise<CancelStatus> {
    const rows = await this.#db.query(SQL.cancel, [id, WITHDRAWN_KEEP_MS]);
    if (rows[0]?.['status'] === 'ok') return 'ok';
    // Somebody else may have cancelled it after our statement began; only the next one sees it.
    const [now] = await this.#db.query(SQL.readState, [id]);
    return now?.['state'] === 'cancelled' ? 'ok' : 'terminal';
  }

  async prune(limit: number): Promise<number> {
    await pruneChords(this.#db, limit);
    await this.#db.query(SQL.pruneEffects, [limit]);
    const rows = await this.#db.query(SQL.prune, [limit]);
    return Number(rows[0]?.['pruned']);
  }

  async joinChord(part: ChordPart): Promise<ChordAnswer> {
    return await joinChord(this.#db, part);
  }

  async closeChord(groupId: string): Promise<void> {
    await closeChord(this.#db, groupId);
  }

  async abandonChords(limit: number): Promise<readonly string[]> {
    return await abandonChords(this.#db, limit);
  }

  onReady(hint: () => void): () => void {
    return this.#db.listen(READY_CHANNEL, hint);
  }
}

interface MessagesBegun {
  readonly begun: readonly BegunTask[];
  readonly ids: ReadonlySet<string>;
  readonly answers: readonly MessageAnswer[];
}

function allNew(messages: readonly Envelope[], run: string): MessagesBegun {
  const nothing = { failures: 0, crashes: 0, isSuspect: false, checkpoint: null, checkpointSeq: 0 };
  return {
    begun: messages.map(envelope => ({ id: envelope.id, epoch: 1, run, envelope, ...nothing })),
    ids: new Set(messages.map(({ id }) => id)),
    answers: messages.map(() => 'begun'),
  };
}

const NO_MESSAGES: MessagesBegun = { begun: [], ids: new Set(), answers: [] };

function readRef(row: SqlRow): TaskRef {
  return { id: row['id'] as string, name: row['name'] as string, queue: row['queue'] as string };
}

function readRun(row: SqlRow): RunRef {
  return { id: row['id'] as string, epoch: Number(row['epoch']), run: row['run'] as string };
}

function readBegun(row: SqlRow): BegunTask {
  return readRunning(row, readEnvelope(row), row['run'] as string);
}

/** Of a message the bytes are here: they have the digest of those on record. */
function readRunning(row: SqlRow, envelope: Envelope, run: string): BegunTask {
  return {
    id: envelope.id,
    epoch: Number(row['epoch']),
    run,
    envelope,
    failures: row['failures'] as number,
    crashes: row['crashes'] as number,
    isSuspect: row['suspect'] as boolean,
    checkpoint: row['checkpoint'] as Uint8Array | null,
    checkpointSeq: Number(row['checkpoint_seq']),
  };
}
