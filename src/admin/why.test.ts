import { afterAll, describe, expect, it } from 'vitest';
import { LimitBook } from '../admission/limits.ts';
import type { AdmissionPattern } from '../config/admission.ts';
import { composeReads } from './compose-reads.ts';
import { adminOn } from './create-admin.ts';
import { WHY_ANSWERS, type WhyAnswer, type WhyCode } from './why.ts';
import type { Envelope } from '../task/envelope.ts';
import { toBytes } from '../task/json.ts';
import { MemoryAdmissionStore } from '../testing/memory/memory-admission-store.ts';
import { MemoryControlStore } from '../testing/memory/memory-control-store.ts';
import { MemoryIdempotencyStore } from '../testing/memory/memory-idempotency-store.ts';
import { MemoryLedger } from '../testing/memory/memory-ledger.ts';
import { MemoryLedgerReads } from '../testing/memory/memory-ledger-reads.ts';
import type { RowExtras } from '../testing/memory/memory-outbox-guards.ts';
import { MemoryOutboxReads } from '../testing/memory/memory-outbox-reads.ts';
import { MemoryOutboxStore } from '../testing/memory/memory-outbox-store.ts';

const ERROR = { type: 'Error', message: 'broken', traceback: '' };
const MINUTE = 60_000;

function envelope(id: string, more: Partial<Envelope> = {}): Envelope {
  return {
    id,
    name: 'a',
    queue: 'q',
    priority: 0,
    version: 1,
    digest: id,
    body: toBytes('[[],{},null]'),
    options: toBytes('{}'),
    etaMs: null,
    expiresMs: null,
    ...more,
  };
}

/** The stores of a tier with a broker, unless told otherwise, and one clock that the test moves. */
function setup({ hasBroker = true, limits = [] as readonly AdmissionPattern[] } = {}) {
  let nowMs = Date.UTC(2026, 0, 1);
  const clock = { now: () => nowMs };
  const outbox = new MemoryOutboxStore({ clock });
  const ledger = new MemoryLedger({ clock });
  const outboxReads = new MemoryOutboxReads(outbox);
  const ledgerReads = new MemoryLedgerReads(ledger);
  const control = new MemoryControlStore(clock);
  const admission = new MemoryAdmissionStore({ clock, ledger });
  const stores = {
    outbox,
    outboxReads,
    ledger,
    ledgerReads,
    control,
    admission,
    idempotency: new MemoryIdempotencyStore(clock),
    fences: { forgetKey: async () => false },
    reads: composeReads(outboxReads, ledgerReads, control),
  };
  const settings = { hasBroker, book: new LimitBook(limits) };
  const admin = adminOn(() => Promise.resolve(stores), {
    redact: null,
    why: settings,
    now: clock.now,
  });
  const write = (task: Envelope, extras: Partial<RowExtras> = {}): void => {
    const tx = outbox.begin();
    outbox.write(tx, [task], extras);
    tx.commit();
  };
  const claim = async (limit = 1): Promise<string> => {
    await outbox.beat('relay', 10_000);
    const [row] = await outbox.claim({ relay: 'relay', token: 'token', limit, staleMs: MINUTE });
    return row?.row ?? '';
  };
  const consume = async (worker = 'worker', queues = ['q']): Promise<void> => {
    const report = { process: 'p', host: 'h1', pid: 7, leaseMs: MINUTE, queues, running: 0 };
    await control.look({ worker, ...report });
  };
  const begin = async (id: string, runnable?: Readonly<Record<string, number>>) => {
    await ledger.open({ worker: 'worker', process: 'p', host: 'h1', pid: 7, leaseMs: MINUTE });
    await ledger.park([{ envelope: envelope(id), delayMs: 0 }]);
    const request = { worker: 'worker', run: `run-${id}`, queues: ['q'], limit: 1, suspects: 1 };
    const more = runnable === undefined ? {} : { runnable };
    const reply = await ledger.begin({
      ...request,
      messages: [],
      crashBudgets: { '*': 5 },
      ...more,
    });
    const [begun] = reply.status === 'open' ? reply.begun : [];
    return { id, epoch: begun?.epoch ?? 0, run: `run-${id}` };
  };
  return {
    admin,
    outbox,
    ledger,
    control,
    admission,
    write,
    claim,
    consume,
    begin,
    advance: (ms: number) => void (nowMs += ms),
    nowMs: () => nowMs,
  };
}

type Parts = ReturnType<typeof setup>;

const answered = new Set<WhyCode>();

async function why({ admin }: Parts, id: string): Promise<WhyAnswer> {
  const answer = await admin.tasks.why(id);
  answered.add(answer.code);
  return answer;
}

afterAll(() => {
  expect([...answered].toSorted()).toEqual(Object.keys(WHY_ANSWERS).toSorted());
});

describe('why a task in the outbox does not run', () => {
  it('is unknown where no store has it', async () => {
    expect(await why(setup(), 'x')).toMatchObject({
      code: 'unknown',
      message: expect.stringMatching(/queue of the broker/) as string,
    });
  });

  it('says for how long it has been due, and that a relay lives', async () => {
    const parts = setup();
    parts.write(envelope('x'));
    await parts.outbox.beat('relay', MINUTE);
    parts.advance(3_000);
    expect(await why(parts, 'x')).toMatchObject({
      code: 'due-in-outbox',
      details: { dueMs: 3_000, movers: 1 },
    });
  });

  it('says that no relay lives, at once', async () => {
    const parts = setup();
    parts.write(envelope('x'));
    expect(await why(parts, 'x')).toMatchObject({
      code: 'no-relay',
      advice: expect.stringMatching(/outlast relay/) as string,
    });
  });

  it('says that no worker lives, where workers move rows', async () => {
    const parts = setup({ hasBroker: false });
    parts.write(envelope('x'));
    expect(await why(parts, 'x')).toMatchObject({
      code: 'no-relay',
      advice: expect.stringMatching(/outlast worker/) as string,
    });
    await parts.consume();
    expect((await why(parts, 'x')).code).toBe('due-in-outbox');
  });

  it('names the relay that has it, and says when that is gone', async () => {
    const parts = setup();
    parts.write(envelope('x'));
    await parts.claim();
    expect(await why(parts, 'x')).toMatchObject({ code: 'claimed', details: { relay: 'relay' } });
    parts.advance(11_000);
    expect((await why(parts, 'x')).code).toBe('claim-lost');
  });

  it('names the time it was sent for', async () => {
    const parts = setup();
    const etaMs = parts.nowMs() + MINUTE;
    parts.write(envelope('x', { etaMs }));
    expect(await why(parts, 'x')).toMatchObject({
      code: 'waiting-for-eta',
      details: { etaAt: new Date(etaMs).toISOString(), inMs: MINUTE },
    });
  });

  it('tells a refused publish from one that no queue takes', async () => {
    const parts = setup();
    for (const [id, error, code] of [
      ['x', 'the broker could not take it (nack)', 'publish-retry'],
      ['y', 'no queue takes it: NO_ROUTE (q)', 'unroutable'],
    ] as const) {
      parts.write(envelope(id));
      const row = await parts.claim();
      await parts.outbox.settleFailed('token', [{ row, error, delayMs: MINUTE }]);
      expect(await why(parts, id)).toMatchObject({ code, details: { retries: 1, inMs: MINUTE } });
    }
  });

  it('tells a broker that is away from a rate that is used up', async () => {
    const rate = { limit: 1, perMs: MINUTE, burst: 1 };
    const parts = setup({
      limits: [{ kind: 'queue', name: 'limited', rule: { rate, concurrency: null } }],
    });
    for (const queue of ['q', 'limited']) {
      parts.write(envelope(queue, { queue }));
      await parts.outbox.defer('token', [await parts.claim()], MINUTE);
    }
    await parts.admission.take([{ key: 'queue:limited', rate, count: 1 }]);
    expect((await why(parts, 'q')).code).toBe('broker-away');
    expect(await why(parts, 'limited')).toMatchObject({
      code: 'rate-limited',
      details: { key: 'queue:limited' },
    });
  });

  it('names the task in front of it under its ordering key, also a dead one', async () => {
    const parts = setup();
    const extras = { orderingKey: 'order-17', parksKey: true };
    parts.write(envelope('x'), extras);
    parts.write(envelope('y'), extras);
    const details = { orderingKey: 'order-17', behind: 'x' };
    expect(await why(parts, 'y')).toMatchObject({ code: 'behind-ordering-key', details });
    const row = await parts.claim();
    await parts.outbox.settleFailed('token', [{ row, error: 'no exchange', delayMs: null }]);
    expect(await why(parts, 'y')).toMatchObject({ code: 'parked-ordering-key', details });
    expect(await why(parts, 'x')).toMatchObject({
      code: 'dead',
      message: expect.stringMatching(/no exchange/) as string,
    });
  });

  it('says that it is in a newer format, or published', async () => {
    const parts = setup();
    parts.write(envelope('new'), { rowVersion: 99 });
    expect((await why(parts, 'new')).code).toBe('newer-format');
    parts.write(envelope('x'));
    await parts.outbox.receipts.markSent('token', [await parts.claim()], MINUTE);
    expect((await why(parts, 'x')).code).toBe('published');
  });
});

describe('why a task in the ledger does not run, or how it went', () => {
  it('looks at its queue: paused, without a worker, or taken from', async () => {
    const parts = setup();
    await parts.ledger.park([{ envelope: envelope('x'), delayMs: 0 }]);
    expect(await why(parts, 'x')).toMatchObject({ code: 'no-consumer', details: { queue: 'q' } });
    await parts.control.pause('q');
    expect((await why(parts, 'x')).code).toBe('queue-paused');
    await parts.control.resume('q');
    await parts.consume();
    expect((await why(parts, 'x')).code).toBe('due');
  });

  it('names the time of the next attempt with the last error', async () => {
    const parts = setup();
    await parts.ledger.park([{ envelope: envelope('later'), delayMs: MINUTE }]);
    expect((await why(parts, 'later')).code).toBe('waiting-for-eta');
    const ref = await parts.begin('x');
    const reason = 'ERR_ATTEMPTS_SPENT';
    await parts.ledger.fail([{ ref, error: ERROR, delayMs: MINUTE, reason }]);
    expect(await why(parts, 'x')).toMatchObject({
      code: 'retry-at',
      message: expect.stringMatching(/1 attempts failed/) as string,
      details: { inMs: MINUTE },
    });
  });

  it('names the admission key whose reservations are taken', async () => {
    const rule = { rate: null, concurrency: 1 };
    const parts = setup({ limits: [{ kind: 'queue', name: 'q', rule }] });
    const holder = await parts.begin('other');
    await parts.admission.reserve({
      key: 'queue:q',
      limit: 1,
      holders: [
        {
          task: 'other',
          run: holder.run,
        },
      ],
    });
    await parts.ledger.park([{ envelope: envelope('x'), delayMs: MINUTE }]);
    expect(await why(parts, 'x')).toMatchObject({
      code: 'admission-limited',
      details: { key: 'queue:q' },
    });
  });

  it('names the worker that had no handler', async () => {
    const parts = setup();
    await parts.consume();
    await parts.begin('x', { other: 1 });
    expect(await why(parts, 'x')).toMatchObject({
      code: 'no-handler',
      details: { refusedBy: 'worker' },
    });
  });

  it('says that it waits because it crashes workers', async () => {
    const parts = setup();
    await parts.consume();
    for (const _ of [1, 2]) {
      const ref = await parts.begin('x');
      const crash = { ref, error: ERROR, delayMs: 0, reason: 'ERR_RESURRECTIONS_SPENT' } as const;
      await parts.ledger.fail([{ ...crash, isCrash: true }]);
    }
    expect(await why(parts, 'x')).toMatchObject({ code: 'suspect', details: { crashes: 2 } });
  });

  it('names worker, host, time and epoch of a run, and says when the worker is lost', async () => {
    const parts = setup();
    const { epoch } = await parts.begin('x');
    await parts.consume();
    parts.advance(2_000);
    expect(await why(parts, 'x')).toMatchObject({
      code: 'running',
      details: { worker: 'worker', forMs: 2_000, epoch, host: 'h1', pid: 7 },
    });
    parts.advance(2 * MINUTE);
    expect((await why(parts, 'x')).code).toBe('worker-lost');
  });

  it('says how it ended', async () => {
    const parts = setup();
    const end = { after: [], dedupMs: MINUTE, resultMs: MINUTE };
    for (const [id, outcome] of [
      ['done', { kind: 'done', result: null }],
      ['discarded', { kind: 'discarded', why: 'nothing to do' }],
    ] as const)
      await parts.ledger.commit([{ ref: await parts.begin(id), outcome, ...end }]);
    const ref = await parts.begin('dead');
    await parts.ledger.bury([{ kind: 'run', ref, reason: 'ERR_TIMEOUT', error: ERROR }]);
    await parts.begin('cancelled');
    await parts.admin.tasks.cancel('cancelled');
    const late = envelope('expired', { expiresMs: parts.nowMs() + 1 });
    await parts.ledger.park([{ envelope: late, delayMs: 0 }]);
    parts.advance(10);
    await parts.begin('next');
    for (const code of ['done', 'discarded', 'dead', 'cancelled', 'expired'])
      expect(await why(parts, code)).toMatchObject({ code });
    expect((await why(parts, 'dead')).message).toBe('dead because of ERR_TIMEOUT: broken');
    expect((await why(parts, 'discarded')).message).toContain('nothing to do');
  });
});
