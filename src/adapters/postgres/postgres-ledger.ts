import type {
  AfterLog,
  BeginReply,
  BeginRequest,
  BuryItem,
  CancelStatus,
  ChordAnswer,
  ChordPart,
  CommitItem,
  CondemnReply,
  CondemnTarget,
  FailItem,
  Ledger,
  RaiseReply,
  ParkItem,
  ReapReply,
  RefusalLog,
  ReleaseItem,
  RenewReply,
  RunRef,
  StepStatus,
  WorkerOpening,
} from '../../ledger/ledger.ts';
import {
  BATCH_BYTES,
  BEGIN_COUNT,
  bytesOfBury,
  bytesOfCommit,
  bytesOfEnvelope,
} from '../../ledger/batch-limits.ts';
import { HOST_LOST, deathBy, encodeDeath, readDeath } from '../../ledger/death.ts';
import { type FaultPoint, noFaults } from '../../runtime/runtime.ts';
import { slicesWithin } from '../../runtime/wakeable.ts';
import type { PurgeReply, PurgeRequest, ReviveStatus } from '../../outbox/outbox-store.ts';
import { encodeError, encodeOutcome, taskColumns } from './postgres-rows.ts';
import { PostgresBegin, readRef, readRun } from './postgres-begin.ts';
import { encodeAfter, postgresAfterLog } from './postgres-after.ts';
import { PostgresChordCount, abandonChords, closeChord, pruneChords } from './postgres-chord.ts';
import { park, purgeParams, purgeReply, WITHDRAWN_KEEP_MS } from './postgres-letters.ts';
import { foldTallies, objectiveColumns } from './postgres-tallies.ts';
import { postgresRefusals } from './postgres-refusals.ts';
import type { PostgresDatabase } from './postgres-database.ts';
import type { LedgerInDatabaseOptions } from '../sql/dialect.ts';
import type { SqlDatabase, SqlRow } from '../sql/sql-database.ts';
import { SQL } from './sql.generated.ts';
import type { Ending } from '../../result/result-store.ts';
import type { ReportedEnd } from '../../wire/reply.ts';

const READY_CHANNEL = 'outlast_task';

/** The ledger in PostgreSQL: each step is one statement that compares task, epoch, run and state. */
type PostgresLedgerOptions = Omit<LedgerInDatabaseOptions, 'movesIntoLedger'>;

export class PostgresLedger implements Ledger {
  readonly countsUnsized: boolean;
  readonly #celeryChords: LedgerInDatabaseOptions['celeryChords'];
  readonly #db: PostgresDatabase;
  readonly #faultPoint: FaultPoint;
  readonly after: AfterLog;
  readonly refusals: RefusalLog;
  readonly recordNeverSent: NonNullable<Ledger['recordNeverSent']>;
  readonly #beginning: PostgresBegin;
  readonly #chords: PostgresChordCount;

  constructor(
    db: PostgresDatabase,
    { faultPoint = noFaults, celeryChords }: PostgresLedgerOptions = {},
  ) {
    this.#db = db;
    this.#celeryChords = celeryChords;
    this.countsUnsized = celeryChords !== undefined;
    this.refusals = postgresRefusals(db);
    this.#faultPoint = faultPoint;
    this.#beginning = new PostgresBegin(db, faultPoint);
    this.after = postgresAfterLog(db);
    this.#chords = new PostgresChordCount(db);
    const record = neverSentRecorder(db);
    this.recordNeverSent = async (...end) => {
      await record(...end);
      await celeryChords?.tell(...end);
    };
  }

  async open(opening: WorkerOpening): Promise<void> {
    const { worker, process, host, pid, leaseMs, objectives } = opening;
    const said = objectiveColumns(objectives ?? {});
    await this.#db.query(SQL.openWorker, [worker, process, host, pid, leaseMs, ...said]);
  }

  async begin(request: BeginRequest): Promise<BeginReply> {
    return await this.#beginning.begin(request);
  }

  async renew(worker: string, listsRuns: boolean = true): Promise<RenewReply> {
    const rows = await this.#db.query(SQL.renew, [worker, listsRuns]);
    if (rows.length === 0) return { status: 'closed' };
    const runs = listsRuns ? rows.filter(row => row['id'] !== null).map(readRun) : null;
    return { status: 'open', runs };
  }

  async checkpoint(run: RunRef, seq: number, data: Uint8Array): Promise<StepStatus> {
    const rows = await this.#db.query(SQL.checkpoint, [run.id, run.epoch, run.run, seq, data]);
    return rows[0]?.['status'] as StepStatus;
  }

  async raiseEpoch({ id, epoch, run }: RunRef, above: number): Promise<RaiseReply> {
    const [row] = await this.#db.query(SQL.raiseEpoch, [id, epoch, run, above]);
    const status = row?.['status'] as RaiseReply['status'];
    return status === 'ok' ? { status, epoch: Number(row?.['epoch']) } : { status };
  }

  async commit(items: readonly CommitItem[]): Promise<readonly StepStatus[]> {
    const statuses: StepStatus[] = [];
    const limits = { count: Infinity, bytes: BATCH_BYTES, bytesOf: bytesOfCommit };
    for (const some of slicesWithin(items, limits)) statuses.push(...(await this.#commit(some)));
    return statuses;
  }

  async #commit(items: readonly CommitItem[]): Promise<readonly StepStatus[]> {
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
      // Some runs were settled before, or belong to others now: the statement with all answers shows which.
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
    ).finally(() => this.#returned(items.some(({ isCrash }) => isCrash === true)));
  }

  async release(items: readonly ReleaseItem[]): Promise<readonly StepStatus[]> {
    const delays = items.map(({ delayMs }) => (delayMs === undefined ? null : Math.round(delayMs)));
    return await this.#step(SQL.release, items, [delays]).finally(() =>
      this.#returned(items.some(({ delayMs }) => delayMs === undefined)),
    );
  }

  /** Tasks that keep their position may stand before the ones that were begun last. */
  #returned(isInPosition: boolean): void {
    if (isInPosition) this.#beginning.lookBack();
  }

  async wake(ids: readonly string[]): Promise<void> {
    if (ids.length === 0) return;
    this.#beginning.lookBackFor(await this.#db.query(SQL.wake, [ids]));
  }

  /** Every step of a run names the same three things first, and answers with one status per run. */
  async #step(
    text: string,
    refs: readonly RunRef[],
    rest: Parameters<PostgresDatabase['query']>[1] & object,
  ): Promise<readonly StepStatus[]> {
    if (refs.length === 0) return [];
    const names = [refs.map(ref => ref.id), refs.map(ref => ref.epoch), refs.map(ref => ref.run)];
    const rows = await this.#db.query(text, [...names, ...rest]);
    return rows.map(row => row['status'] as StepStatus);
  }

  async park(items: readonly ParkItem[]): Promise<void> {
    const bytesOf = ({ envelope }: ParkItem): number => bytesOfEnvelope(envelope);
    for (const some of slicesWithin(items, { count: BEGIN_COUNT, bytes: BATCH_BYTES, bytesOf }))
      await park(this.#db, some);
  }

  async bury(items: readonly BuryItem[]): Promise<readonly StepStatus[]> {
    const runs = items.filter(item => item.kind === 'run');
    const messages = items.filter(item => item.kind === 'message');
    const statuses = await this.#step(
      SQL.buryRuns,
      runs.map(item => item.ref),
      [runs.map(item => item.reason), runs.map(item => encodeError(item.error))],
    );
    const limits = { count: Infinity, bytes: BATCH_BYTES, bytesOf: bytesOfBury };
    for (const some of slicesWithin(messages, limits)) {
      const columns = taskColumns(some.map(item => item.envelope));
      await this.#db.query(SQL.buryMessages, [
        ...columns,
        some.map(item => item.reason),
        some.map(item => encodeError(item.error)),
      ]);
    }
    const ofRuns = statuses.values();
    return items.map(item => (item.kind === 'run' ? (ofRuns.next().value as StepStatus) : 'ok'));
  }

  async condemn(target: CondemnTarget): Promise<CondemnReply> {
    const rows = await this.#condemn(target);
    const closed = rows.filter(row => row['id'] !== null);
    return {
      workers: closed.map(row => row['id'] as string),
      deaths: closed.map(row => readDeath(row['death'] as string | null)),
      storeMs: Number(rows[0]?.['store_ms']),
    };
  }

  async #condemn(target: CondemnTarget): Promise<readonly SqlRow[]> {
    const death = encodeDeath(deathBy(target));
    switch (target.kind) {
      case 'expired':
        return await this.#db.query(SQL.condemnExpired, [death, encodeDeath(HOST_LOST)]);
      case 'process':
        return await this.#db.query(SQL.condemnProcess, [target.process, death]);
      case 'worker':
        return await this.#db.query(SQL.condemnWorker, [target.worker, death]);
    }
  }

  async reap(limit: number): Promise<ReapReply> {
    const rows = await this.#db.query(SQL.reap, [limit]);
    this.#returned(true);
    const refs = (state: string) =>
      rows
        .filter(row => row['state'] === state)
        .map(row => ({
          ...readRef(row),
          crashes: row['crashes'] as number,
          worker: row['owner'] as string,
          death: readDeath(row['death'] as string | null),
        }));
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
    const rows = await this.#db.query(SQL.cancel, [id, String(WITHDRAWN_KEEP_MS)]);
    if (rows[0]?.['status'] === 'ok') return 'ok';
    // Another session may have cancelled it after our statement began; only the next one sees it.
    const [now] = await this.#db.query(SQL.readState, [id]);
    return now?.['state'] === 'cancelled' ? 'ok' : 'terminal';
  }

  async prune(limit: number): Promise<number> {
    await pruneChords(this.#db, limit);
    await this.#db.query(SQL.pruneEffects, [limit]);
    await this.#db.query(SQL.pruneNeverSent, [limit]);
    await foldTallies(this.#db);
    const rows = await this.#db.query(SQL.prune, [limit]);
    return Number(rows[0]?.['pruned']);
  }

  async joinChord(part: ChordPart): Promise<ChordAnswer> {
    const elsewhere = part.size === null ? this.#celeryChords : undefined;
    return await (elsewhere ?? this.#chords).join(part);
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

/** As long as a result is kept by default. */
const KEEP_MS = 86_400_000;

/** Where the waiters for later steps of a workflow learn that these never come. */
function neverSentRecorder(db: SqlDatabase): NonNullable<Ledger['recordNeverSent']> {
  return async (ids, told, of) => {
    const { ending, error } = endOf(told);
    await db.query(SQL.recordNeverSent, [
      JSON.stringify(ids),
      of,
      ending,
      encodeError(error),
      KEEP_MS,
    ]);
  };
}

const DISCARDED = 'discarded: ';

function endOf(told: ReportedEnd): {
  readonly ending: Exclude<Ending, 'done'>;
  readonly error: Parameters<typeof encodeError>[0];
} {
  if (told.status === 'FAILURE') return { ending: 'dead', error: told.error };
  const why = told.status === 'REVOKED' ? told.why : '';
  const isDiscarded = why.startsWith(DISCARDED);
  const message = isDiscarded ? why.slice(DISCARDED.length) : why;
  const error = { type: 'TaskRevokedError', message, traceback: '' };
  if (isDiscarded) return { ending: 'discarded', error };
  return { ending: why === 'expired' ? 'expired' : 'cancelled', error };
}
