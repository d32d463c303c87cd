import { describe, expect, it } from 'vitest';
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
import { composeReads } from './compose-reads.ts';
import { adminOn, type Admin } from './create-admin.ts';

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
  const admin = adminOn(() => Promise.resolve(stores), null);
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
