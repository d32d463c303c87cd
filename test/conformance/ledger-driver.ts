import { expect } from 'vitest';
import type { ReadModel } from '../../src/admin/read-model.ts';
import type {
  BeginOpen,
  BeginRequest,
  BegunTask,
  CommitItem,
  ErrorRecord,
  FailItem,
  Ledger,
  Outcome,
  ReapReply,
  RunRef,
} from '../../src/ledger/ledger.ts';
import type { LedgerReads } from '../../src/ledger/ledger-reads.ts';
import type { ResultStore } from '../../src/result/result-store.ts';
import type { Envelope } from '../../src/task/envelope.ts';
import { HOUR, MINUTE, makeEnvelope, unique } from './envelopes.ts';

/** One ledger under test. It may hold what other tests left behind. */
export interface LedgerFixture {
  readonly ledger: Ledger;
  readonly results: ResultStore;
  readonly readModel: Pick<ReadModel, 'inspect' | 'showDeadLetter'>;
  /** Tombstones go by themselves when their time is over, and `prune` finds none. */
  readonly forgetsByItself?: true;
  /** Moves the store's clock forward, or shifts every stored time back by as much. */
  advance(ms: number): Promise<void>;
  dispose(): Promise<void>;
}

/** A ledger alone, as the fixtures ask for it. */
export function ledgerModel(reads: LedgerReads): LedgerFixture['readModel'] {
  return { inspect: id => reads.inspect(id), showDeadLetter: id => reads.showDead(id) };
}

/** Makes a fixture; called once per suite, because a real store takes seconds to start. */
export type MakeLedgerFixture = () => Promise<LedgerFixture>;

export const sampleError = (message: string): ErrorRecord => ({
  type: 'CardDeclined',
  message,
  traceback: `Error: ${message}\n    at charge (charge.ts:1:1)`,
});

export interface OpenedWorker {
  readonly worker: string;
  readonly process: string;
}

export interface RunningTask {
  readonly worker: string;
  readonly envelope: Envelope;
  readonly task: BegunTask;
}

/** A row is locked for less than a millisecond. */
const MOST_LOOKS = 100;

/** Drives a ledger with short calls, so that a test shows only what it is about. */
export class LedgerDriver {
  readonly fixture: LedgerFixture;

  constructor(fixture: LedgerFixture) {
    this.fixture = fixture;
  }

  get ledger(): Ledger {
    return this.fixture.ledger;
  }

  /** The clock of the store; reading it closes no incarnation. */
  async nowMs(): Promise<number> {
    const reply = await this.ledger.condemn({ kind: 'worker', worker: unique('nobody') });
    return reply.storeMs;
  }

  async open(
    opening: {
      readonly leaseMs?: number;
      readonly process?: string;
      readonly host?: string;
    } = {},
  ): Promise<OpenedWorker> {
    const worker = unique('worker');
    const process = opening.process ?? unique('process');
    const leaseMs = opening.leaseMs ?? HOUR;
    const host = opening.host ?? 'host-1';
    await this.ledger.open({ worker, process, host, pid: 4711, leaseMs });
    return { worker, process };
  }

  request(worker: string, request: Partial<BeginRequest>): BeginRequest {
    const crashBudgets = { '*': 5 };
    return {
      worker,
      run: unique('run'),
      queues: [],
      limit: 0,
      suspects: 1,
      messages: [],
      crashBudgets,
      ...request,
    };
  }

  async begin(worker: string, request: Partial<BeginRequest>): Promise<BeginOpen> {
    const reply = await this.ledger.begin(this.request(worker, request));
    if (reply.status !== 'open') throw new Error(`begin under ${worker} found it ${reply.status}`);
    return reply;
  }

  /** Waiting records, as a relay writes them. */
  async put(...envelopes: readonly Envelope[]): Promise<void> {
    await this.ledger.park(envelopes.map(envelope => ({ envelope, delayMs: 0 })));
  }

  /**
   * Begins what waits in the queue of this task. A `begin` that finds the row locked returns no task and reports that
   * one is due: PostgreSQL reports a conflict (SERIALIZABLE) before it has unlocked the row, and the repeat may come
   * first.
   */
  async beginWaiting(
    envelope: Envelope,
    request: Partial<BeginRequest> = {},
  ): Promise<RunningTask> {
    const { worker } =
      request.worker === undefined ? await this.open() : { worker: request.worker };
    const asked = { queues: [envelope.queue], limit: 1, ...request };
    let reply = await this.begin(worker, asked);
    const isMissed = (): boolean => reply.begun.length === 0 && reply.nextDueMs === 0;
    for (let again = 0; again < MOST_LOOKS && isMissed(); again++)
      reply = await this.begin(worker, asked);
    const [task] = reply.begun;
    if (task === undefined) throw new Error(`nothing of ${envelope.queue} was due`);
    return { worker, envelope, task };
  }

  /** A task that runs under a worker of its own. */
  async running(
    envelope: Envelope = makeEnvelope(),
    request: Partial<BeginRequest> = {},
  ): Promise<RunningTask> {
    await this.put(envelope);
    return this.beginWaiting(envelope, request);
  }

  commitItem(ref: RunRef, item: Partial<Omit<CommitItem, 'ref'>> = {}): CommitItem {
    const outcome: Outcome = { kind: 'done', result: null };
    return {
      ref,
      outcome,
      after: [],
      dedupMs: 15 * MINUTE,
      resultMs: 15 * MINUTE,
      ...item,
    };
  }

  async commit(
    ref: RunRef,
    item: Partial<Omit<CommitItem, 'ref'>> = {},
  ): Promise<string | undefined> {
    const [status] = await this.ledger.commit([this.commitItem(ref, item)]);
    return status;
  }

  async fail(ref: RunRef, item: Partial<Omit<FailItem, 'ref'>> = {}): Promise<string | undefined> {
    const failing = {
      error: sampleError('declined'),
      delayMs: 0,
      reason: 'ERR_ATTEMPTS_SPENT',
      ...item,
    };
    const [status] = await this.ledger.fail([{ ref: runRef(ref), ...failing }]);
    return status;
  }

  async release(ref: RunRef, delayMs?: number): Promise<string | undefined> {
    const item = { ...runRef(ref), ...(delayMs === undefined ? {} : { delayMs }) };
    const [status] = await this.ledger.release([item]);
    return status;
  }

  async bury(ref: RunRef, reason = 'ERR_TIMEOUT'): Promise<string | undefined> {
    const error = sampleError('buried');
    const [status] = await this.ledger.bury([{ kind: 'run', ref: runRef(ref), reason, error }]);
    return status;
  }

  async dead(envelope: Envelope = makeEnvelope()): Promise<Envelope> {
    const { task } = await this.running(envelope);
    expect(await this.fail(task, { delayMs: null })).toBe('ok');
    return envelope;
  }

  async done(
    envelope: Envelope = makeEnvelope(),
    item: Partial<Omit<CommitItem, 'ref'>> = {},
  ): Promise<Envelope> {
    const { task } = await this.running(envelope);
    expect(await this.commit(task, item)).toBe('ok');
    return envelope;
  }

  /** A task that expired before any worker began it. */
  async expired(): Promise<Envelope> {
    const { worker } = await this.open();
    const late = makeEnvelope({ expiresMs: (await this.nowMs()) - MINUTE });
    await this.put(late);
    expect((await this.begin(worker, { queues: [late.queue], limit: 1 })).begun).toEqual([]);
    return late;
  }

  /** Brings back all tasks, also those of other tests; a test looks for its own. */
  async reapAll(chunk = 100): Promise<Pick<ReapReply, 'returned' | 'buried'>> {
    const returned: ReapReply['returned'][number][] = [];
    const buried: ReapReply['buried'][number][] = [];
    let more = true;
    while (more) {
      const reply = await this.ledger.reap(chunk);
      returned.push(...reply.returned);
      buried.push(...reply.buried);
      more = reply.more;
    }
    return { returned, buried };
  }

  /** The worker is gone, and what it ran is brought back. */
  async crash(worker: string): Promise<Pick<ReapReply, 'returned' | 'buried'>> {
    await this.ledger.condemn({ kind: 'worker', worker });
    return this.reapAll();
  }

  /** A waiting task that lost its worker so many times: twice makes it a suspect. */
  async suspect(envelope: Envelope, crashes = 2): Promise<Envelope> {
    for (let crash = 0; crash < crashes; crash++) {
      const { worker } = await this.open();
      await this.begin(worker, { messages: [envelope] });
      await this.crash(worker);
    }
    return envelope;
  }

  async state(id: string): Promise<string | undefined> {
    return (await this.fixture.readModel.inspect(id))?.state;
  }
}

export const runRef = ({ id, epoch, run }: RunRef): RunRef => ({ id, epoch, run });
