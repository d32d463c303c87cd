import { describe, expect, it } from 'vitest';
import { LimitBook } from '../admission/limits.ts';
import { undecodable } from '../ledger/undecodable.ts';
import { MemoryLedgerReads } from '../testing/memory/memory-ledger-reads.ts';
import { MemoryControlStore } from '../testing/memory/memory-control-store.ts';
import { MemoryIdempotencyStore } from '../testing/memory/memory-idempotency-store.ts';
import { MemoryAdmissionStore } from '../testing/memory/memory-admission-store.ts';
import { MemoryLedger } from '../testing/memory/memory-ledger.ts';
import { MemoryOutboxReads } from '../testing/memory/memory-outbox-reads.ts';
import { MemoryOutboxStore } from '../testing/memory/memory-outbox-store.ts';
import type { Envelope } from '../task/envelope.ts';
import { toBytes } from '../task/json.ts';
import { ok } from '../telemetry/checkup.ts';
import { composeReads } from './compose-reads.ts';
import { adminOn, type Admin, type TaskListOptions } from './create-admin.ts';
import { examine } from './doctor.ts';
import type { TaskPage } from './list-tasks.ts';

const ERROR = { type: 'Error', message: 'broken', traceback: '' };

function envelope(id: string, name = 'a'): Envelope {
  return {
    id,
    name,
    queue: 'default',
    priority: 0,
    version: 1,
    body: toBytes('[[],{},null]'),
    options: toBytes('{}'),
    digest: id,
    etaMs: null,
    expiresMs: null,
  };
}

/** An outbox and a ledger that are different stores, with one clock that the test moves. */
function setup() {
  let nowMs = Date.UTC(2026, 0, 1);
  const clock = { now: () => nowMs };
  const outbox = new MemoryOutboxStore({ clock });
  const ledger = new MemoryLedger({ clock });
  const outboxReads = new MemoryOutboxReads(outbox);
  const control = new MemoryControlStore(clock);
  const ledgerReads = new MemoryLedgerReads(ledger);
  const reads = composeReads(outboxReads, ledgerReads, control);
  const idempotency = new MemoryIdempotencyStore(clock);
  const admission = new MemoryAdmissionStore({ clock, ledger });
  const stores = {
    outbox,
    outboxReads,
    ledger,
    ledgerReads,
    control,
    idempotency,
    fences: { forgetKey: async () => false },
    reads,
    admission,
  };
  const admin = adminOn(() => Promise.resolve(stores), {
    redact: null,
    why: { hasBroker: true, book: new LimitBook([]) },
    now: () => nowMs,
  });
  const write = (task: Envelope): void => {
    const tx = outbox.begin();
    outbox.write(tx, [task]);
    tx.commit();
  };
  const killRow = async (id: string): Promise<void> => {
    write(envelope(id));
    await outbox.beat('relay', 1_000);
    const [row] = await outbox.claim({ relay: 'relay', token: id, limit: 1, staleMs: 1_000 });
    const failure = { row: row?.row ?? '', error: 'no exchange', delayMs: null };
    await outbox.settleFailed(id, [failure]);
  };
  const killTask = async (id: string): Promise<void> => {
    await ledger.bury([
      { kind: 'message', envelope: envelope(id), reason: 'ERR_TIMEOUT', error: ERROR },
    ]);
  };
  return {
    admin,
    ledger,
    idempotency,
    write,
    killRow,
    killTask,
    stores,
    advance: (ms: number) => void (nowMs += ms),
  };
}

async function walk(admin: Admin, between: () => Promise<void> = async () => undefined) {
  const seen: string[] = [];
  let cursor: string | null = null;
  do {
    const { items, next } = await admin.deadLetters.list({
      limit: 2,
      ...(cursor === null ? {} : { cursor }),
    });
    seen.push(...items.map(({ id }) => id));
    cursor = next;
    await between();
  } while (cursor !== null);
  return seen;
}

describe('dead letters of an outbox and a ledger in two stores', () => {
  it('are one list, newest first, also when many died at the same instant', async () => {
    const { admin, killRow, killTask, advance } = setup();
    await killRow('r1');
    await killTask('w1');
    advance(1_000);
    for (const id of ['w3', 'w5', 'w2']) await killTask(id);
    for (const id of ['r4', 'r2', 'x9']) await killRow(id);
    advance(1_000);
    await killRow('r9');
    expect(await walk(admin)).toEqual(['r9', 'x9', 'w5', 'w3', 'w2', 'r4', 'r2', 'w1', 'r1']);
  });

  it('keep their position in the list while other tasks die and are retried', async () => {
    const { admin, killRow, killTask, advance } = setup();
    for (const id of ['r1', 'r2', 'r3']) {
      await killRow(id);
      advance(10);
      await killTask(`w${id}`);
      advance(10);
    }
    let turn = 0;
    const seen = await walk(admin, async () => {
      turn += 1;
      advance(10);
      await killTask(`late-${turn}`);
      if (turn === 1) await admin.deadLetters.retry('wr1');
    });
    expect(seen).toEqual(['wr3', 'r3', 'wr2', 'r2', 'r1']);
  });

  it('are retried and purged in the store that has them', async () => {
    const { admin, killRow, killTask, advance } = setup();
    await killRow('row');
    await killTask('task');
    expect(await admin.deadLetters.retry('row')).toBe('ok');
    expect(await admin.deadLetters.retry('task')).toBe('ok');
    expect(await admin.stats()).toMatchObject({
      queueDepth: 1,
      dlqCount: 0,
      tasks: { waiting: 1 },
    });
    await killRow('row-2');
    await killTask('task-2');
    advance(60_000);
    const purged = await admin.deadLetters.purge({ olderThanDead: '30s' });
    expect(purged).toEqual({ count: 2, tasks: [{ name: 'a', count: 2 }] });
    expect(await admin.stats()).toMatchObject({ dlqCount: 0, tasks: { purged: 1 } });
  });

  it('are found by the id of their task in either store', async () => {
    const { admin, write, killRow, killTask } = setup();
    await killRow('of-relay');
    await killTask('of-worker');
    write(envelope('pending'));
    const states = await Promise.all(
      ['pending', 'of-relay', 'of-worker', 'unknown'].map(
        async id => (await admin.tasks.inspect(id))?.state,
      ),
    );
    expect(states).toEqual(['pending', 'dead', 'dead', undefined]);
  });
});

describe('a dead letter of a truncated message', () => {
  it('is not retried, neither alone nor by retryAll', async () => {
    const { admin, ledger } = setup();
    const raw = new Uint8Array(10);
    const cut = { bytes: 99, sha256: 'f'.repeat(64) };
    const reason = 'ERR_MESSAGE_TOO_LARGE';
    await ledger.bury([
      undecodable({ raw, queue: 'default', why: 'too large', reason, cut }, null),
    ]);
    const [letter] = (await admin.deadLetters.list()).items;
    expect(await admin.deadLetters.retry(letter?.id ?? '')).toBe('incomplete');
    expect(await admin.deadLetters.retryAll()).toEqual({
      retried: 0,
      skipped: { expired: 0, conflict: 0, incomplete: 1 },
    });
    expect((await admin.deadLetters.list()).items).toHaveLength(1);
  });
});

describe('retryAll', () => {
  it('retries a dead letter once, also when it dies again at once', async () => {
    const { admin, ledger, killTask, advance } = setup();
    await killTask('t1');
    await killTask('t2');
    const revive = ledger.revive.bind(ledger);
    ledger.revive = async (id, version) => {
      const status = await revive(id, version);
      advance(5);
      const record = ledger.state.records.get(id);
      if (record) ledger.state.die(record, 'ERR_TIMEOUT', ERROR);
      return status;
    };
    expect(await admin.deadLetters.retryAll()).toEqual({
      retried: 2,
      skipped: { expired: 0, conflict: 0, incomplete: 0 },
    });
  });

  it.each([0, -1, 1.5, Number.NaN])('refuses a limit of %s', async limit => {
    const { admin } = setup();
    await expect(admin.deadLetters.retryAll({ limit })).rejects.toMatchObject({
      code: 'ERR_OPTION_RANGE',
    });
  });
});

describe('a purge', () => {
  it('requires an age', async () => {
    const { admin } = setup();
    await expect(admin.deadLetters.purge({ taskName: 'a' })).rejects.toMatchObject({
      code: 'ERR_OPTIONS_CONFLICT',
    });
  });
});

describe('idempotency keys', () => {
  const taken = async () => {
    const made = setup();
    const owner = { taskId: 'holder', epoch: 1, run: 'r' };
    await made.idempotency.acquire({ key: 'pay#17', digest: 'd', ...owner });
    made.advance(60_000);
    return { ...made, owner };
  };

  it('are reset only by force while their holder lives, and a task that waits becomes due then', async () => {
    const { admin, ledger, idempotency } = await taken();
    await ledger.park([{ envelope: envelope('holder'), delayMs: 0 }]);
    await ledger.park([{ envelope: envelope('waiting'), delayMs: 3_600_000 }]);
    await idempotency.acquire({
      key: 'pay#17',
      digest: 'd',
      taskId: 'waiting',
      epoch: 1,
      run: 'w',
    });
    expect(await admin.idempotency.show('pay#17')).toMatchObject({ isHolderAlive: true });
    expect(await admin.idempotency.reset('pay#17')).toBe('conflict');
    expect(await admin.idempotency.reset('pay#17', { force: true })).toBe('ok');
    expect(ledger.state.records.get('waiting')?.dueMs).toBe(ledger.state.nowMs);
    expect(await admin.idempotency.reset('pay#17')).toBe('absent');
    expect(await admin.idempotency.show('pay#17')).toBeNull();
  });

  it('are reset when their holder has ended or has left a result', async () => {
    const { admin, ledger, idempotency, owner } = await taken();
    await ledger.cancel('holder');
    expect(await admin.idempotency.show('pay#17')).toMatchObject({ isHolderAlive: false });
    expect(await admin.idempotency.reset('pay#17')).toBe('ok');
    await idempotency.acquire({ key: 'pay#17', digest: 'd', ...owner });
    await idempotency.complete({ key: 'pay#17', ...owner, result: null, ttlMs: 1_000 });
    expect(await admin.idempotency.reset('pay#17')).toBe('ok');
  });
});

describe('tasks of an outbox and a ledger in two stores', () => {
  const sixStates = async () => {
    const parts = setup();
    const { ledger, write, killRow, killTask, advance } = parts;
    const options = toBytes('{"tenant":"acme"}');
    await ledger.open({ worker: 'w', process: 'p', host: 'h', pid: 1, leaseMs: 60_000 });
    const begin = async (id: string) => {
      await ledger.park([{ envelope: { ...envelope(id, 'shop.run'), options }, delayMs: 0 }]);
      const request = { worker: 'w', run: `run-${id}`, queues: ['default'], limit: 1, suspects: 1 };
      await ledger.begin({ ...request, messages: [], crashBudgets: { '*': 5 } });
      return { id, epoch: 1, run: `run-${id}` };
    };
    await killRow('dead-row');
    await killTask('dead-task');
    advance(60_000);
    const outcome = { kind: 'done', result: toBytes('{"n":1.0}') } as const;
    const kept = { after: [], dedupMs: 1_000_000, resultMs: 1_000_000 };
    await ledger.commit([{ ref: await begin('done'), outcome, ...kept }]);
    await begin('running');
    await ledger.park([{ envelope: envelope('waiting'), delayMs: 5_000 }]);
    await ledger.cancel('cancelled');
    write(envelope('pending-1'));
    write({ ...envelope('pending-2'), queue: 'mail' });
    return parts;
  };
  const listed = async (admin: Admin, options: TaskListOptions = {}): Promise<string[]> =>
    (await admin.tasks.list(options)).items.map(({ id }) => id);

  it('are listed in every state, what runs first, page by page', async () => {
    const { admin } = await sixStates();
    const seen: string[] = [];
    let cursor: string | undefined;
    do {
      const page: TaskPage = await admin.tasks.list({ limit: 1, ...(cursor ? { cursor } : {}) });
      seen.push(...page.items.map(({ id }) => id));
      cursor = page.next ?? undefined;
    } while (cursor !== undefined);
    expect(seen.slice(0, 4)).toEqual(['running', 'waiting', 'pending-1', 'pending-2']);
    expect(seen.slice(4, 6).toSorted()).toEqual(['dead-row', 'dead-task']);
    expect(seen.slice(6).toSorted()).toEqual(['cancelled', 'done']);
  });

  it('are filtered by every term', async () => {
    const { admin, advance } = await sixStates();
    expect(await listed(admin, { state: 'running' })).toEqual(['running']);
    expect(await listed(admin, { state: 'done' })).toEqual(['done']);
    expect(await listed(admin, { state: 'dead', error: 'NO EXCHANGE' })).toEqual(['dead-row']);
    expect(await listed(admin, { queue: 'mail' })).toEqual(['pending-2']);
    expect(await listed(admin, { name: 'shop.*' })).toEqual(['running', 'done']);
    expect(await listed(admin, { tenant: 'acme', state: 'running' })).toEqual(['running']);
    expect(await listed(admin, { idPrefix: 'pending-' })).toEqual(['pending-1', 'pending-2']);
    expect((await listed(admin, { olderThan: '30s' })).toSorted()).toEqual([
      'dead-row',
      'dead-task',
    ]);
    expect(await listed(admin, { newerThan: '30s', state: 'dead' })).toEqual([]);
    advance(31_000);
    expect(await listed(admin, { newerThan: '30s' })).toEqual([]);
  });

  it('are refused an unknown term, an empty text, a state that is none and a strange cursor', async () => {
    const { admin } = setup();
    for (const [options, code] of [
      [{ sate: 'dead' }, 'ERR_UNKNOWN_OPTION'],
      [{ queue: '' }, 'ERR_OPTION_RANGE'],
      [{ state: 'refused' }, 'ERR_OPTION_RANGE'],
      [{ limit: 0 }, 'ERR_OPTION_RANGE'],
      [{ olderThan: 'old' }, 'ERR_OPTION_UNIT'],
      [{ cursor: 'x'.repeat(10_000) }, 'ERR_OPTION_RANGE'],
      [{ cursor: Buffer.from('["pending","x"]').toString('base64url') }, 'ERR_OPTION_RANGE'],
      [{ cursor: Buffer.from('["elsewhere"]').toString('base64url') }, 'ERR_OPTION_RANGE'],
    ] as const)
      await expect(admin.tasks.list(options as TaskListOptions)).rejects.toMatchObject({ code });
  });

  it('end a page after 10,000 that do not match, and the next one goes on behind them', async () => {
    const { admin, write } = setup();
    for (let n = 0; n < 10_050; n++) write(envelope(`task-${n}`, n < 10_020 ? 'common' : 'rare'));
    const first = await admin.tasks.list({ name: 'rare', limit: 10 });
    expect(first).toMatchObject({ items: [], examined: 10_000 });
    const second = await admin.tasks.list({ name: 'rare', limit: 10, cursor: first.next ?? '' });
    expect(second.items.map(({ id }) => id)).toEqual(
      Array.from({ length: 10 }, (_, n) => `task-${10_020 + n}`),
    );
  });

  it('are shown with input and result, and hidden by a redactor', async () => {
    const { admin, stores } = await sixStates();
    const input = { argsJson: '[]', kwargsJson: '{}', isRedacted: false };
    expect(await admin.tasks.inspect('running')).toMatchObject({ ...input, state: 'running' });
    expect(await admin.tasks.inspect('pending-1')).toMatchObject({ ...input, state: 'pending' });
    expect(await admin.tasks.inspect('dead-row')).toMatchObject({
      ...input,
      state: 'dead',
      ending: 'dead',
      error: 'no exchange',
      failures: 1,
    });
    expect(await admin.tasks.inspect('done')).toMatchObject({ resultJson: '{"n":1.0}' });
    expect(await admin.tasks.inspect('nothing')).toBeNull();
    const redact = () => ({ args: '["***"]', kwargs: '{}' });
    const why = { hasBroker: true, book: new LimitBook([]) };
    const careful = adminOn(() => Promise.resolve(stores), { redact, why, now: () => 0 });
    const hidden = { argsJson: '["***"]', isRedacted: true };
    for (const id of ['running', 'pending-1', 'dead-row'])
      expect(await careful.tasks.inspect(id)).toMatchObject(hidden);
    expect(await careful.tasks.inspect('done')).toMatchObject({ resultJson: '"[hidden]"' });
  });

  it('that run are listed with host and pid of their worker', async () => {
    const { admin, stores, advance } = await sixStates();
    const { items: lost } = await admin.tasks.inflight();
    expect(lost).toMatchObject([{ id: 'running', worker: 'w', host: null, pid: null }]);
    const report = { process: 'p', host: 'h', pid: 17, leaseMs: 60_000, queues: [], running: 1 };
    await stores.control.look({ worker: 'w', ...report });
    advance(1_500);
    expect((await admin.tasks.inflight()).items).toMatchObject([
      { id: 'running', host: 'h', pid: 17, forMs: 1_500, epoch: 1 },
    ]);
  });
});

describe('a doctor', () => {
  it('gives up a store that does not answer, and looks at the others', async () => {
    const silent = { target: 'broker', check: () => new Promise<never>(() => undefined) };
    const well = { target: 'database', check: async () => [ok('server', 'fine')] };
    const report = await examine([silent, well], [], { patienceMs: 1 });
    expect(report.status).toBe('unreachable');
    expect(report.checks.map(({ target, status }) => `${target} ${status}`)).toEqual([
      'config ok',
      'broker problem',
      'database ok',
    ]);
  });
});
