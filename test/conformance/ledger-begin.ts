import { describe, expect, it } from 'vitest';
import {
  AWKWARD_BYTES,
  bytesOf,
  ids,
  makeEnvelope,
  makeEnvelopes,
  HOUR,
  MINUTE,
  plainEnvelope,
  unique,
} from './envelopes.ts';
import type { LedgerDriver } from './ledger-driver.ts';

export function beginSuite(driver: () => LedgerDriver): void {
  describe('begin', () => {
    incarnations(driver);
    messagesFound(driver);
    messagesTurnedAway(driver);
    dueTasks(driver);
    suspects(driver);
    repeats(driver);
  });
}

function incarnations(driver: () => LedgerDriver): void {
  it('hands out nothing under an incarnation that was never opened', async () => {
    const { ledger } = driver();
    const message = makeEnvelope();
    const waiting = makeEnvelope();
    await driver().put(waiting);
    const request = driver().request(unique('worker'), {
      messages: [message],
      queues: [waiting.queue],
      limit: 5,
    });
    expect(await ledger.begin(request)).toEqual({ status: 'closed' });
    expect(await driver().fixture.readModel.inspect(message.id)).toBeNull();
    expect(await driver().state(waiting.id)).toBe('waiting');
  });

  it('hands out nothing under a closed incarnation', async () => {
    const { ledger } = driver();
    const { worker } = await driver().open();
    await ledger.condemn({ kind: 'worker', worker });
    const message = makeEnvelope();
    expect(await ledger.begin(driver().request(worker, { messages: [message] }))).toEqual({
      status: 'closed',
    });
    expect(await driver().fixture.readModel.inspect(message.id)).toBeNull();
  });

  it('does not reopen a closed incarnation', async () => {
    const { ledger } = driver();
    const { worker } = await driver().running();
    await ledger.condemn({ kind: 'worker', worker });
    await ledger.open({
      worker,
      process: unique('process'),
      host: 'host-1',
      pid: 1,
      leaseMs: MINUTE,
    });
    expect(await ledger.begin(driver().request(worker, {}))).toEqual({ status: 'closed' });
  });

  it('treats a repeated open as one', async () => {
    const { worker, task } = await driver().running();
    await driver().ledger.open({
      worker,
      process: unique('process'),
      host: 'host-1',
      pid: 1,
      leaseMs: MINUTE,
    });
    expect(await driver().commit(task)).toBe('ok');
    expect((await driver().begin(worker, {})).status).toBe('open');
  });
}

function messagesFound(driver: () => LedgerDriver): void {
  it('begins a message without a record under epoch 1', async () => {
    const { worker } = await driver().open();
    const message = makeEnvelope();
    const reply = await driver().begin(worker, { messages: [message], run: 'first-run' });
    expect(reply.answers).toEqual(['begun']);
    expect(reply.begun).toHaveLength(1);
    expect(reply.begun[0]).toMatchObject({
      id: message.id,
      epoch: 1,
      run: 'first-run',
      failures: 0,
      crashes: 0,
      checkpoint: null,
    });
  });

  it('hands out the envelope unchanged, with all fields', async () => {
    const { worker } = await driver().open();
    const nowMs = await driver().nowMs();
    const times = { etaMs: nowMs - MINUTE, expiresMs: nowMs + MINUTE };
    const message = makeEnvelope({
      args: AWKWARD_BYTES,
      options: AWKWARD_BYTES,
      priority: 7,
      version: 3,
      ...times,
    });
    const waiting = makeEnvelope({
      args: AWKWARD_BYTES,
      options: AWKWARD_BYTES,
      priority: 3,
      version: 2,
      ...times,
    });
    await driver().put(waiting);
    const reply = await driver().begin(worker, {
      messages: [message],
      queues: [waiting.queue],
      limit: 1,
    });
    const given = reply.begun.map(({ envelope }) => plainEnvelope(envelope));
    expect(given).toHaveLength(2);
    expect(given).toContainEqual(plainEnvelope(message));
    expect(given).toContainEqual(plainEnvelope(waiting));
  });

  it('begins a copy of a task that is waiting and due, under the next epoch', async () => {
    const message = makeEnvelope();
    const { worker, task } = await driver().running(message);
    await driver().release(task);
    const reply = await driver().begin(worker, { messages: [message] });
    expect(reply.answers).toEqual(['begun']);
    expect(reply.begun.map(({ epoch }) => epoch)).toEqual([2]);
  });

  it('holds a copy of a task that is due later', async () => {
    const { worker } = await driver().open();
    const message = makeEnvelope();
    await driver().ledger.park([{ envelope: message, delayMs: 10 * MINUTE }]);
    const reply = await driver().begin(worker, { messages: [message] });
    expect(reply).toMatchObject({ answers: ['held'], begun: [] });
    expect(await driver().state(message.id)).toBe('waiting');
  });

  it('holds a copy of a running task, whichever worker owns it', async () => {
    const { worker, envelope, task } = await driver().running();
    const other = await driver().open();
    for (const asking of [other.worker, worker]) {
      expect(await driver().begin(asking, { messages: [envelope] })).toMatchObject({
        answers: ['held'],
        begun: [],
      });
    }
    expect(await driver().commit(task)).toBe('ok');
  });

  it('answers done for a copy of a done or discarded task', async () => {
    const { worker } = await driver().open();
    const done = await driver().done();
    const discarded = await driver().done(makeEnvelope(), {
      outcome: { kind: 'discarded', why: 'no need' },
    });
    const reply = await driver().begin(worker, { messages: [done, discarded] });
    expect(reply).toMatchObject({ answers: ['done', 'done'], begun: [] });
  });

  it('holds copies of dead and of cancelled tasks', async () => {
    const { worker } = await driver().open();
    const dead = await driver().dead();
    const cancelled = makeEnvelope();
    await driver().put(cancelled);
    await driver().ledger.cancel(cancelled.id);
    const reply = await driver().begin(worker, { messages: [dead, cancelled] });
    expect(reply).toMatchObject({ answers: ['held', 'held'], begun: [] });
    expect(await driver().state(dead.id)).toBe('dead');
    expect(await driver().state(cancelled.id)).toBe('cancelled');
  });

  it('holds a task that was cancelled before it arrived', async () => {
    const { worker } = await driver().open();
    const message = makeEnvelope();
    expect(await driver().ledger.cancel(message.id)).toBe('ok');
    expect(await driver().begin(worker, { messages: [message] })).toMatchObject({
      answers: ['held'],
      begun: [],
    });
    await driver().put(message);
    expect((await driver().begin(worker, { queues: [message.queue], limit: 5 })).begun).toEqual([]);
  });

  it('begins a task once when its message comes twice in a batch', async () => {
    const { worker } = await driver().open();
    const message = makeEnvelope();
    const reply = await driver().begin(worker, { messages: [message, message] });
    expect(ids(reply.begun)).toEqual([message.id]);
    expect(reply.answers[0]).toBe('begun');
    expect(reply.begun[0]?.epoch).toBe(1);
  });
}

function messagesTurnedAway(driver: () => LedgerDriver): void {
  it('reports a conflict for the same id with other bytes, in every state of the first task', async () => {
    const { worker } = await driver().open();
    const waiting = makeEnvelope();
    await driver().put(waiting);
    const { envelope: running, task } = await driver().running();
    const others = [waiting, running, await driver().done(), await driver().dead()];
    const conflicting = others.map(({ id, queue }) =>
      makeEnvelope({ id, queue, args: AWKWARD_BYTES }),
    );
    const reply = await driver().begin(worker, { messages: conflicting });
    expect(reply).toMatchObject({
      answers: ['conflict', 'conflict', 'conflict', 'conflict'],
      begun: [],
    });
    expect(await driver().commit(task)).toBe('ok');
    const first = await driver().beginWaiting(waiting);
    expect(bytesOf(first.task.envelope.body)).toEqual(bytesOf(waiting.body));
  });

  it('expires a message that arrives too late, and never runs a copy of it', async () => {
    const { worker } = await driver().open();
    const expiresMs = (await driver().nowMs()) - MINUTE;
    const message = makeEnvelope({ expiresMs });
    expect(await driver().begin(worker, { messages: [message] })).toMatchObject({
      answers: ['expired'],
      begun: [],
      // Reported by its answer, once.
      expired: [],
    });
    expect(await driver().fixture.results.read(message.id)).toMatchObject({
      state: 'cancelled',
      ending: 'expired',
    });
    const again = await driver().begin(worker, {
      messages: [message],
      queues: [message.queue],
      limit: 5,
    });
    expect(again.begun).toEqual([]);
    expect(['expired', 'held']).toContain(again.answers[0]);
  });

  it('keeps a message until its eta by the clock of the store, and begins it then', async () => {
    const { worker } = await driver().open();
    const etaMs = (await driver().nowMs()) + HOUR;
    const [early, due] = [makeEnvelope({ etaMs }), makeEnvelope({ etaMs: etaMs - 2 * HOUR })];
    const first = await driver().begin(worker, { messages: [early, due, early] });
    expect(first.answers).toEqual(['held', 'begun', 'held']);
    expect(first.begun.map(({ id }) => id)).toEqual([due.id]);
    expect(await driver().state(early.id)).toBe('waiting');
    const soon = { queues: [early.queue], limit: 1 };
    expect((await driver().begin(worker, soon)).begun).toEqual([]);
    await driver().fixture.advance(HOUR + MINUTE);
    const { begun } = await driver().begin((await driver().open()).worker, soon);
    expect(begun).toMatchObject([{ id: early.id, epoch: 1, failures: 0, crashes: 0 }]);
    expect(bytesOf(begun[0]?.envelope.body)).toEqual(bytesOf(early.body));
  });

  it('parks a message until its eta by the clock of the store; one whose eta has passed is due at once', async () => {
    const etaMs = (await driver().nowMs()) + HOUR;
    const [early, due] = [makeEnvelope({ etaMs }), makeEnvelope({ etaMs: etaMs - 2 * HOUR })];
    await driver().ledger.park([early, due].map(envelope => ({ envelope, delayMs: null })));
    expect((await driver().beginWaiting(due)).task.id).toBe(due.id);
    await expect(driver().beginWaiting(early)).rejects.toThrow(/nothing/);
    await driver().fixture.advance(HOUR + MINUTE);
    expect((await driver().beginWaiting(early)).task.id).toBe(early.id);
  });

  it('expires a waiting record when a copy arrives after its time', async () => {
    const { worker } = await driver().open();
    const message = makeEnvelope({ expiresMs: (await driver().nowMs()) - MINUTE });
    await driver().ledger.park([{ envelope: message, delayMs: 10 * MINUTE }]);
    expect(await driver().begin(worker, { messages: [message] })).toMatchObject({
      answers: ['expired'],
      begun: [],
    });
    expect(await driver().state(message.id)).toBe('cancelled');
  });

  it('lets a run finish whose task expired after it began', async () => {
    const { worker, envelope, task } = await driver().running(
      makeEnvelope({ expiresMs: (await driver().nowMs()) + 2 * MINUTE }),
    );
    await driver().fixture.advance(10 * MINUTE);
    const late = makeEnvelope({
      id: envelope.id,
      queue: envelope.queue,
      expiresMs: (await driver().nowMs()) - MINUTE,
    });
    expect(late.digest).toBe(envelope.digest);
    expect(await driver().begin(worker, { messages: [late] })).toMatchObject({
      answers: ['held'],
      begun: [],
    });
    expect(await driver().commit(task)).toBe('ok');
  });

  it('answers the messages in their order', async () => {
    const { worker } = await driver().open();
    const held = makeEnvelope();
    await driver().ledger.park([{ envelope: held, delayMs: 10 * MINUTE }]);
    const done = await driver().done();
    const other = makeEnvelope({ id: done.id, queue: done.queue, args: AWKWARD_BYTES });
    const late = makeEnvelope({ expiresMs: (await driver().nowMs()) - MINUTE });
    const fresh = makeEnvelope();
    const reply = await driver().begin(worker, { messages: [held, other, fresh, late, done] });
    expect(reply.answers).toEqual(['held', 'conflict', 'begun', 'expired', 'done']);
    expect(ids(reply.begun)).toEqual([fresh.id]);
  });
}

function dueTasks(driver: () => LedgerDriver): void {
  it('hands out due tasks up to the limit, in addition to the messages', async () => {
    const { worker } = await driver().open();
    const queue = unique('queue');
    const waiting = makeEnvelopes(3, { queue });
    const message = makeEnvelope({ queue });
    await driver().put(...waiting);
    const reply = await driver().begin(worker, { messages: [message], queues: [queue], limit: 2 });
    expect(reply.begun).toHaveLength(3);
    expect(ids(reply.begun)).toContain(message.id);
    const rest = await driver().begin(worker, { queues: [queue], limit: 5 });
    expect(rest.begun).toHaveLength(1);
    expect(rest.nextDueMs).toBeNull();
  });

  it('hands out nothing when the limit is 0', async () => {
    const { worker } = await driver().open();
    const waiting = makeEnvelope();
    await driver().put(waiting);
    expect((await driver().begin(worker, { queues: [waiting.queue], limit: 0 })).begun).toEqual([]);
  });

  it('hands out a task once when it is due and its copy is among the messages', async () => {
    const { worker } = await driver().open();
    const message = makeEnvelope();
    await driver().put(message);
    const reply = await driver().begin(worker, {
      messages: [message],
      queues: [message.queue],
      limit: 5,
    });
    expect(ids(reply.begun)).toEqual([message.id]);
    expect(reply.begun[0]?.epoch).toBe(1);
  });

  it('leaves tasks that are not due yet, and returns when the next one is', async () => {
    const { worker } = await driver().open();
    const later = makeEnvelope();
    await driver().ledger.park([{ envelope: later, delayMs: 10 * MINUTE }]);
    const early = await driver().begin(worker, { queues: [later.queue], limit: 5 });
    expect(early.begun).toEqual([]);
    expect(early.nextDueMs).toBeGreaterThan(8 * MINUTE);
    expect(early.nextDueMs).toBeLessThanOrEqual(10 * MINUTE);
    await driver().fixture.advance(11 * MINUTE);
    expect(ids((await driver().begin(worker, { queues: [later.queue], limit: 5 })).begun)).toEqual([
      later.id,
    ]);
  });

  it('takes from the given queues, in their order', async () => {
    const { worker } = await driver().open();
    const [second, first, other] = [makeEnvelope({ priority: 9 }), makeEnvelope(), makeEnvelope()];
    await driver().put(second, other, first);
    const reply = await driver().begin(worker, { queues: [first.queue, second.queue], limit: 5 });
    expect(ids(reply.begun)).toEqual([first.id, second.id]);
  });

  it('takes higher priorities first, and within one priority the oldest', async () => {
    const { worker } = await driver().open();
    const queue = unique('queue');
    const tasks = [0, 5, 9, 5].map(priority => makeEnvelope({ queue, priority }));
    for (const task of tasks) await driver().put(task);
    const reply = await driver().begin(worker, { queues: [queue], limit: 5 });
    expect(ids(reply.begun)).toEqual([2, 1, 3, 0].map(place => tasks[place]?.id));
  });

  it('takes the tasks first that have been due longest', async () => {
    const { worker } = await driver().open();
    const queue = unique('queue');
    const [late, early] = [makeEnvelope({ queue }), makeEnvelope({ queue })];
    await driver().ledger.park([
      { envelope: late, delayMs: 4 * MINUTE },
      { envelope: early, delayMs: MINUTE },
    ]);
    await driver().fixture.advance(10 * MINUTE);
    expect(ids((await driver().begin(worker, { queues: [queue], limit: 1 })).begun)).toEqual([
      early.id,
    ]);
  });

  it('expires waiting tasks that are too late instead of handing them out', async () => {
    const { worker } = await driver().open();
    const late = makeEnvelope({ expiresMs: (await driver().nowMs()) - MINUTE });
    await driver().put(late);
    const reply = await driver().begin(worker, { queues: [late.queue], limit: 5 });
    expect(reply.begun).toEqual([]);
    expect(reply.expired).toContainEqual({ id: late.id, name: late.name, queue: late.queue });
    expect(await driver().fixture.results.read(late.id)).toMatchObject({
      state: 'cancelled',
      ending: 'expired',
    });
  });

  it('hands each task to one worker when many ask at once', async () => {
    const queue = unique('queue');
    const tasks = makeEnvelopes(20, { queue });
    await driver().put(...tasks);
    const workers = await Promise.all([1, 2, 3, 4, 5].map(() => driver().open()));
    const replies = await Promise.all(
      workers.map(({ worker }) => driver().begin(worker, { queues: [queue], limit: 10 })),
    );
    const given = replies.flatMap(({ begun }) => ids(begun));
    expect(new Set(given).size).toBe(given.length);
    const rest = await driver().begin((await driver().open()).worker, {
      queues: [queue],
      limit: 20,
    });
    expect([...given, ...ids(rest.begun)].sort()).toEqual(ids(tasks).sort());
  });
}

function suspects(driver: () => LedgerDriver): void {
  const withSuspects = async (): Promise<{
    worker: string;
    queue: string;
    suspected: string[];
    healthy: string[];
  }> => {
    const queue = unique('queue');
    const suspected = [];
    for (const envelope of makeEnvelopes(3, { queue }))
      suspected.push((await driver().suspect(envelope)).id);
    const healthy = makeEnvelopes(2, { queue });
    await driver().put(...healthy);
    return { worker: (await driver().open()).worker, queue, suspected, healthy: ids(healthy) };
  };

  it('hands out at most the requested number of suspects', async () => {
    const { worker, queue, suspected, healthy } = await withSuspects();
    const reply = await driver().begin(worker, { queues: [queue], limit: 10, suspects: 1 });
    const given = ids(reply.begun);
    expect(given).toEqual(expect.arrayContaining(healthy));
    expect(given.filter(id => suspected.includes(id))).toHaveLength(1);
    expect(reply.begun.filter(({ isSuspect }) => isSuspect)).toHaveLength(1);
  });

  it('hands out only healthy tasks when no suspect is requested', async () => {
    const { worker, queue, healthy } = await withSuspects();
    const reply = await driver().begin(worker, { queues: [queue], limit: 10, suspects: 0 });
    expect(ids(reply.begun).sort()).toEqual(healthy.sort());
  });

  it('does not suspect a task after its first crash, unless its budget has no crash to spare', async () => {
    const queue = unique('queue');
    const once = [makeEnvelope({ queue }), makeEnvelope({ queue })];
    for (const envelope of once) await driver().suspect(envelope, 1);
    const { worker } = await driver().open();
    const reply = await driver().begin(worker, {
      queues: [queue],
      limit: 5,
      suspects: 0,
      crashBudgets: { '*': 1 },
    });
    expect(ids(reply.begun).sort()).toEqual(ids(once).sort());
    await driver().crash(worker);
    const last = makeEnvelope({ queue, name: 'conformance.last' });
    const { worker: second } = await driver().open();
    await driver().begin(second, { messages: [last], crashBudgets: { '*': 1 } });
    await driver().crash(second);
    const { worker: third } = await driver().open();
    const spared = await driver().begin(third, { queues: [queue], limit: 5, suspects: 0 });
    expect(ids(spared.begun)).not.toContain(last.id);
  });

  it('hands out released and resurrected tasks before later ones', async () => {
    const queue = unique('queue');
    const [released, lost] = [makeEnvelope({ queue }), makeEnvelope({ queue })];
    await driver().put(released, lost);
    const { worker } = await driver().open();
    const { begun } = await driver().begin(worker, { queues: [queue], limit: 2 });
    await driver().put(...makeEnvelopes(3, { queue }));
    const [first] = begun;
    if (first !== undefined) await driver().release(first);
    await driver().crash(worker);
    const { worker: next } = await driver().open();
    const reply = await driver().begin(next, { queues: [queue], limit: 2 });
    expect(ids(reply.begun).sort()).toEqual([released.id, lost.id].sort());
  });

  it('does not report a suspect as due to a worker that may not take it', async () => {
    const queue = unique('queue');
    await driver().suspect(makeEnvelope({ queue }));
    const { worker } = await driver().open();
    // A worker that gets "due now" and no task would ask again without a pause.
    const reply = await driver().begin(worker, { queues: [queue], limit: 5, suspects: 0 });
    expect(reply).toMatchObject({ begun: [], nextDueMs: null });
  });

  it('counts suspects among the messages toward the limit', async () => {
    const { worker } = await driver().open();
    const message = await driver().suspect(makeEnvelope());
    const refused = await driver().begin(worker, { messages: [message], suspects: 0 });
    expect(refused).toMatchObject({ answers: ['held'], begun: [] });
    const other = await driver().suspect(makeEnvelope());
    const reply = await driver().begin(worker, {
      messages: [message],
      queues: [other.queue],
      limit: 5,
      suspects: 1,
    });
    expect(ids(reply.begun)).toEqual([message.id]);
  });
}

function repeats(driver: () => LedgerDriver): void {
  it('returns the same tasks when begin is repeated with the same run token', async () => {
    const { worker } = await driver().open();
    const queue = unique('queue');
    await driver().put(...makeEnvelopes(6, { queue }));
    const request = driver().request(worker, { queues: [queue], limit: 3 });
    const first = await driver().ledger.begin(request);
    const again = await driver().ledger.begin(request);
    if (first.status !== 'open' || again.status !== 'open') throw new Error('closed');
    const refs = (begun: typeof first.begun): string[] =>
      begun.map(({ id, epoch }) => `${id}@${epoch}`).sort();
    expect(first.begun).toHaveLength(3);
    expect(refs(again.begun)).toEqual(refs(first.begun));
  });

  it('gives a repeated message the same answer', async () => {
    const { worker } = await driver().open();
    const message = makeEnvelope();
    const request = driver().request(worker, { messages: [message] });
    await driver().ledger.begin(request);
    const again = await driver().ledger.begin(request);
    expect(again).toMatchObject({ status: 'open', answers: ['begun'] });
    if (again.status !== 'open') throw new Error('closed');
    expect(again.begun.map(({ id, epoch }) => `${id}@${epoch}`)).toEqual([`${message.id}@1`]);
  });

  it('hands no task of one run token to another run token of the same worker', async () => {
    const { worker, envelope } = await driver().running();
    expect((await driver().begin(worker, { queues: [envelope.queue], limit: 5 })).begun).toEqual(
      [],
    );
  });
}
