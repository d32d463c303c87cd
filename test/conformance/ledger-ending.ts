import { describe, expect, it } from 'vitest';
import { AWKWARD_BYTES, bytesOf, HOUR, ids, makeEnvelope, MINUTE, unique } from './envelopes.ts';
import { runRef, sampleError, type LedgerDriver } from './ledger-driver.ts';

export function endingSuite(driver: () => LedgerDriver): void {
  describe('dead letters', () => deadLetters(driver));
  describe('revive', () => revivals(driver));
  describe('cancel', () => cancellations(driver));
  describe('tombstones', () => tombstones(driver));
}

const DAY = 24 * HOUR;

function deadLetters(driver: () => LedgerDriver): void {
  it('keep bytes, reason, error and the history of all attempts', async () => {
    const envelope = makeEnvelope({ args: AWKWARD_BYTES, options: AWKWARD_BYTES });
    const { task: first } = await driver().running(envelope);
    await driver().fail(first, { error: sampleError('first') });
    const { task: second } = await driver().beginWaiting(envelope);
    await driver().fail(second, {
      error: sampleError('second'),
      delayMs: null,
      reason: 'ERR_ATTEMPTS_SPENT',
    });
    const letter = await driver().fixture.readModel.showDeadLetter(envelope.id);
    expect(letter).toMatchObject({
      id: envelope.id,
      name: envelope.name,
      queue: envelope.queue,
      where: 'worker',
      reason: 'ERR_ATTEMPTS_SPENT',
    });
    expect(letter?.error).toContain('second');
    expect(bytesOf(letter?.body)).toEqual(bytesOf(envelope.body));
    expect(bytesOf(letter?.options)).toEqual(bytesOf(envelope.options));
    const told = letter?.history.filter(({ error }) => error !== undefined) ?? [];
    expect(told.map(({ epoch, error }) => [epoch, error])).toEqual([
      [1, sampleError('first')],
      [2, sampleError('second')],
    ]);
    expect(
      letter?.history.every(({ at, step }) => step !== '' && !Number.isNaN(Date.parse(at))),
    ).toBe(true);
  });

  it('appear with their error in the result store', async () => {
    const { envelope, task } = await driver().running();
    await driver().fail(task, { error: sampleError('declined'), delayMs: null });
    const record = await driver().fixture.results.read(envelope.id);
    expect(record).toMatchObject({
      state: 'dead',
      ending: 'dead',
      result: null,
      error: sampleError('declined'),
    });
  });

  it('are made of a buried run without counting a failed attempt', async () => {
    const { envelope, task } = await driver().running();
    const error = sampleError('negative amount');
    const [status] = await driver().ledger.bury([
      { kind: 'run', ref: runRef(task), reason: 'ERR_TIMEOUT', error },
    ]);
    expect(status).toBe('ok');
    expect(await driver().fixture.readModel.inspect(envelope.id)).toMatchObject({
      state: 'dead',
      failures: 0,
    });
    const letter = await driver().fixture.readModel.showDeadLetter(envelope.id);
    expect(letter?.reason).toBe('ERR_TIMEOUT');
    expect(bytesOf(letter?.body)).toEqual(bytesOf(envelope.body));
  });

  it('keep a message that was never begun, once and with its original bytes', async () => {
    const envelope = makeEnvelope({ args: AWKWARD_BYTES });
    const item = {
      kind: 'message',
      envelope,
      reason: 'ERR_UNDECODABLE',
      error: sampleError('not JSON'),
    } as const;
    expect(await driver().ledger.bury([item])).toEqual(['ok']);
    expect(await driver().ledger.bury([item])).toEqual(['ok']);
    const letter = await driver().fixture.readModel.showDeadLetter(envelope.id);
    expect(letter).toMatchObject({ where: 'worker', reason: 'ERR_UNDECODABLE' });
    expect(bytesOf(letter?.body)).toEqual(bytesOf(envelope.body));
    expect(letter?.history.filter(({ error }) => error !== undefined)).toHaveLength(1);
  });

  it('do not replace an existing record when a copy is buried', async () => {
    const { envelope, task } = await driver().running();
    const error = sampleError('not JSON');
    await driver().ledger.bury([{ kind: 'message', envelope, reason: 'ERR_UNDECODABLE', error }]);
    expect(await driver().state(envelope.id)).toBe('running');
    expect(await driver().commit(task)).toBe('ok');
  });

  it('are never handed out and never pruned', async () => {
    const dead = await driver().dead();
    await driver().fixture.advance(40 * DAY);
    await driver().ledger.prune(10_000);
    const { worker } = await driver().open();
    expect((await driver().begin(worker, { queues: [dead.queue], limit: 5 })).begun).toEqual([]);
    expect(await driver().state(dead.id)).toBe('dead');
  });
}

function revivals(driver: () => LedgerDriver): void {
  const version = async (id: string): Promise<number> =>
    (await driver().fixture.readModel.showDeadLetter(id))?.version ?? -1;

  it('makes a dead task wait again, with its bytes and without failures or crashes', async () => {
    const envelope = makeEnvelope({ args: AWKWARD_BYTES });
    const { worker, task } = await driver().running(envelope);
    await driver().fail(task);
    await driver().beginWaiting(envelope, { worker });
    await driver().crash(worker);
    const { task: third } = await driver().beginWaiting(envelope);
    expect(third).toMatchObject({ failures: 1, crashes: 1 });
    await driver().fail(third, { delayMs: null });
    expect(await driver().ledger.revive(envelope.id, await version(envelope.id))).toBe('ok');
    const { task: fourth } = await driver().beginWaiting(envelope);
    expect(fourth).toMatchObject({ failures: 0, crashes: 0 });
    expect(fourth.epoch).toBeGreaterThan(third.epoch);
    expect(bytesOf(fourth.envelope.body)).toEqual(bytesOf(envelope.body));
    expect(await driver().fixture.results.read(envelope.id)).toMatchObject({
      state: 'running',
      ending: null,
    });
  });

  it('revives a death once; a repeated request changes nothing', async () => {
    const { id } = await driver().dead();
    const death = await version(id);
    expect(await driver().ledger.revive(id, death)).toBe('ok');
    expect(await driver().ledger.revive(id, death)).toBe('conflict');
    expect(await driver().state(id)).toBe('waiting');
  });

  it('does not revive a later death under the version of an earlier one', async () => {
    const envelope = await driver().dead();
    const death = await version(envelope.id);
    await driver().ledger.revive(envelope.id, death);
    const { task } = await driver().beginWaiting(envelope);
    await driver().fail(task, { delayMs: null });
    expect(await driver().ledger.revive(envelope.id, death)).toBe('conflict');
    expect(await driver().state(envelope.id)).toBe('dead');
    expect(await driver().ledger.revive(envelope.id, await version(envelope.id))).toBe('ok');
  });

  it('refuses tasks that are not dead, and unknown ids', async () => {
    const { envelope, task } = await driver().running();
    expect(await driver().ledger.revive(envelope.id, 0)).toBe('conflict');
    expect(await driver().ledger.revive(envelope.id, 1)).toBe('conflict');
    expect(await driver().commit(task)).toBe('ok');
    expect(await driver().ledger.revive(unique('task'), 1)).toBe('absent');
  });
}

function cancellations(driver: () => LedgerDriver): void {
  it('prevents a waiting task from ever running', async () => {
    const envelope = makeEnvelope();
    await driver().put(envelope);
    expect(await driver().ledger.cancel(envelope.id)).toBe('ok');
    const { worker } = await driver().open();
    const reply = await driver().begin(worker, {
      queues: [envelope.queue],
      limit: 5,
      messages: [envelope],
    });
    expect(reply).toMatchObject({ begun: [], answers: ['held'] });
    expect(await driver().fixture.results.read(envelope.id)).toMatchObject({
      state: 'cancelled',
      ending: 'cancelled',
    });
  });

  it('takes a running task away from its run', async () => {
    const { worker, envelope, task } = await driver().running();
    expect(await driver().ledger.cancel(envelope.id)).toBe('ok');
    expect(await driver().ledger.renew(worker)).toEqual({ status: 'open', runs: [] });
    expect(await driver().commit(task)).toBe('stale');
    expect(await driver().fail(task)).toBe('stale');
    expect(await driver().release(task)).toBe('stale');
    expect(await driver().bury(task)).toBe('stale');
    expect(await driver().ledger.checkpoint(task, 1, Uint8Array.from([1]))).toBe('stale');
    const { returned } = await driver().crash(worker);
    expect(ids(returned)).not.toContain(envelope.id);
    expect(await driver().state(envelope.id)).toBe('cancelled');
  });

  it('gives the same answer when repeated', async () => {
    const { envelope } = await driver().running();
    expect(await driver().ledger.cancel(envelope.id)).toBe('ok');
    expect(await driver().ledger.cancel(envelope.id)).toBe('ok');
  });

  it('has no effect on a task that is done or dead', async () => {
    const done = await driver().done();
    const dead = await driver().dead();
    expect(await driver().ledger.cancel(done.id)).toBe('terminal');
    expect(await driver().ledger.cancel(dead.id)).toBe('terminal');
    expect(await driver().state(done.id)).toBe('done');
    expect(await driver().state(dead.id)).toBe('dead');
  });

  it('leaves a tombstone for a task that has not arrived', async () => {
    const envelope = makeEnvelope();
    expect(await driver().ledger.cancel(envelope.id)).toBe('ok');
    expect(await driver().ledger.cancel(envelope.id)).toBe('ok');
    await driver().put(envelope);
    const { worker } = await driver().open();
    const reply = await driver().begin(worker, { queues: [envelope.queue], limit: 5 });
    expect(reply.begun).toEqual([]);
    expect(await driver().state(envelope.id)).toBe('cancelled');
  });
}

function tombstones(driver: () => LedgerDriver): void {
  it('turn copies away during their deduplication window', async () => {
    const envelope = await driver().done(makeEnvelope(), {
      dedupMs: 30 * MINUTE,
      resultMs: MINUTE,
    });
    await driver().fixture.advance(20 * MINUTE);
    await driver().ledger.prune(10_000);
    const { worker } = await driver().open();
    expect(await driver().begin(worker, { messages: [envelope] })).toMatchObject({
      answers: ['done'],
      begun: [],
    });
  });

  it('keep the result during their result window', async () => {
    const result = Uint8Array.from([4, 2]);
    const { id } = await driver().done(makeEnvelope(), {
      outcome: { kind: 'done', result },
      dedupMs: MINUTE,
      resultMs: 30 * MINUTE,
    });
    await driver().fixture.advance(20 * MINUTE);
    await driver().ledger.prune(10_000);
    expect(bytesOf((await driver().fixture.results.read(id)).result)).toEqual([4, 2]);
  });

  it('are pruned after both windows, and a later copy runs again', async () => {
    const envelope = await driver().done(makeEnvelope(), {
      dedupMs: 5 * MINUTE,
      resultMs: 5 * MINUTE,
    });
    await driver().fixture.advance(20 * MINUTE);
    const pruned = await driver().ledger.prune(10_000);
    if (driver().fixture.forgetsByItself !== true) expect(pruned).toBeGreaterThan(0);
    expect((await driver().fixture.results.read(envelope.id)).state).toBe('unknown');
    const { worker } = await driver().open();
    expect((await driver().begin(worker, { messages: [envelope] })).answers).toEqual(['begun']);
  });

  it('are pruned up to the given limit at a time', async () => {
    for (let n = 0; n < 3; n++)
      await driver().done(makeEnvelope(), { dedupMs: MINUTE, resultMs: MINUTE });
    await driver().fixture.advance(5 * MINUTE);
    expect(await driver().ledger.prune(2)).toBe(driver().fixture.forgetsByItself ? 0 : 2);
  });

  it('never replace tasks that still wait or run', async () => {
    const waiting = makeEnvelope();
    await driver().ledger.park([{ envelope: waiting, delayMs: 90 * DAY }]);
    const { envelope: running } = await driver().running();
    await driver().fixture.advance(40 * DAY);
    await driver().ledger.prune(10_000);
    expect(await driver().state(waiting.id)).toBe('waiting');
    expect(await driver().state(running.id)).toBe('running');
  });

  it('of cancelled tasks turn copies away too', async () => {
    const envelope = makeEnvelope();
    await driver().ledger.cancel(envelope.id);
    await driver().fixture.advance(10 * MINUTE);
    await driver().ledger.prune(10_000);
    const { worker } = await driver().open();
    expect(await driver().begin(worker, { messages: [envelope] })).toMatchObject({
      answers: ['held'],
      begun: [],
    });
  });
}
