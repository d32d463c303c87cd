import { describe, expect, it } from 'vitest';
import type { AfterEntry, PublishEntry, RunRef } from '../../src/ledger/ledger.ts';
import {
  AWKWARD_BYTES,
  bytesOf,
  HOUR,
  ids,
  makeEnvelope,
  MINUTE,
  plainEnvelope,
  unique,
} from './envelopes.ts';
import { sampleError, type LedgerDriver } from './ledger-driver.ts';

export function settleSuite(driver: () => LedgerDriver): void {
  describe('commit', () => commits(driver));
  describe('follow-ups of a commit', () => afters(driver));
  describe('fail and release', () => givingBack(driver));
  describe('repeats and unknown runs', () => repeats(driver));
  describe('checkpoint', () => checkpoints(driver));
  describe('raiseEpoch', () => raising(driver));
}

function commits(driver: () => LedgerDriver): void {
  it('ends the task and stores the bytes of its result', async () => {
    const { envelope, task } = await driver().running();
    expect(await driver().commit(task, { outcome: { kind: 'done', result: AWKWARD_BYTES } })).toBe(
      'ok',
    );
    const record = await driver().fixture.results.read(envelope.id);
    expect(record).toMatchObject({ state: 'done', ending: 'done', error: null });
    expect(bytesOf(record.result)).toEqual(bytesOf(AWKWARD_BYTES));
  });

  it('answers ok to a repeat and keeps the first result', async () => {
    const { envelope, task } = await driver().running();
    const result = Uint8Array.from([1]);
    await driver().commit(task, { outcome: { kind: 'done', result } });
    expect(await driver().commit(task, { outcome: { kind: 'done', result } })).toBe('ok');
    expect(bytesOf((await driver().fixture.results.read(envelope.id)).result)).toEqual([1]);
  });

  it('answers absent for an unknown task, and writes nothing', async () => {
    const ref = { id: unique('task'), epoch: 1, run: unique('run') };
    expect(await driver().commit(ref)).toBe('absent');
    expect((await driver().fixture.results.read(ref.id)).state).toBe('unknown');
  });

  it('refuses another epoch or another run, and leaves the task running', async () => {
    const { worker, envelope, task } = await driver().running();
    const result = Uint8Array.from([6, 6, 6]);
    const outcome = { kind: 'done', result } as const;
    expect(await driver().commit({ ...task, epoch: task.epoch + 1 }, { outcome })).toBe('stale');
    expect(await driver().commit({ ...task, epoch: task.epoch - 1 }, { outcome })).toBe('stale');
    expect(await driver().commit({ ...task, run: unique('run') }, { outcome })).toBe('stale');
    expect(await driver().state(envelope.id)).toBe('running');
    expect(await driver().ledger.renew(worker)).toMatchObject({
      status: 'open',
      runs: [{ id: envelope.id }],
    });
    expect((await driver().fixture.results.read(envelope.id)).result).toBeNull();
  });

  it('refuses the previous run while the next one runs and after it has committed', async () => {
    const { envelope, task: old } = await driver().running();
    await driver().release(old);
    const { task: next } = await driver().beginWaiting(envelope);
    expect(
      await driver().commit(old, { outcome: { kind: 'done', result: Uint8Array.from([1]) } }),
    ).toBe('stale');
    expect(
      await driver().commit(next, { outcome: { kind: 'done', result: Uint8Array.from([2]) } }),
    ).toBe('ok');
    expect(
      await driver().commit(old, { outcome: { kind: 'done', result: Uint8Array.from([1]) } }),
    ).toBe('stale');
    expect(bytesOf((await driver().fixture.results.read(envelope.id)).result)).toEqual([2]);
  });

  it('answers each item of a batch separately, in order', async () => {
    const { task: good } = await driver().running();
    const { task: other } = await driver().running();
    const refs: RunRef[] = [
      { ...other, run: 'foreign' },
      good,
      { id: unique('task'), epoch: 1, run: 'r' },
      other,
    ];
    const statuses = await driver().ledger.commit(refs.map(ref => driver().commitItem(ref)));
    expect(statuses).toEqual(['stale', 'ok', 'absent', 'ok']);
  });

  it('accepts an empty batch', async () => {
    expect(await driver().ledger.commit([])).toEqual([]);
    expect(await driver().ledger.fail([])).toEqual([]);
    expect(await driver().ledger.release([])).toEqual([]);
    expect(await driver().ledger.bury([])).toEqual([]);
    await driver().ledger.park([]);
  });

  it('accepts exactly one commit when two runs race for it', async () => {
    const { envelope, task: old } = await driver().running();
    await driver().release(old);
    const { task: next } = await driver().beginWaiting(envelope);
    const statuses = await Promise.all([
      driver().commit(old),
      driver().commit(next),
      driver().commit(old),
    ]);
    expect(statuses).toEqual(['stale', 'ok', 'stale']);
  });
}

function afters(driver: () => LedgerDriver): void {
  const followUp = (): PublishEntry => ({
    key: unique('after'),
    publish: makeEnvelope({ args: AWKWARD_BYTES, priority: 4 }),
  });
  /** The log is shared with other tests: only these keys matter. */
  const listed = async (
    entries: readonly AfterEntry[],
    olderThanMs: number,
  ): Promise<AfterEntry[]> => {
    const keys = new Set(entries.map(({ key }) => key));
    return (await driver().ledger.after.list(olderThanMs, 1_000)).filter(({ key }) =>
      keys.has(key),
    );
  };

  it('are kept until they are struck off, bytes unchanged', async () => {
    const { task } = await driver().running();
    const entries = [followUp(), followUp()];
    await driver().commit(task, { after: entries });
    const found = await listed(entries, 0);
    expect(found.map(entry => 'publish' in entry && plainEnvelope(entry.publish))).toEqual(
      expect.arrayContaining(entries.map(({ publish }) => plainEnvelope(publish))),
    );
    await driver().ledger.after.strike([entries[0]?.key ?? '']);
    expect((await listed(entries, 0)).map(({ key }) => key)).toEqual([entries[1]?.key]);
    await driver().ledger.after.strike(entries.map(({ key }) => key));
    expect(await listed(entries, 0)).toEqual([]);
  });

  it('are listed only when they are older than asked', async () => {
    const { task } = await driver().running();
    const entries = [followUp()];
    await driver().commit(task, { after: entries });
    expect(await listed(entries, 2 * MINUTE)).toEqual([]);
    await driver().fixture.advance(5 * MINUTE);
    expect(await listed(entries, 2 * MINUTE)).toHaveLength(1);
    await driver().ledger.after.strike(entries.map(({ key }) => key));
  });

  it('are listed up to the limit', async () => {
    const { task } = await driver().running();
    const entries = [followUp(), followUp(), followUp()];
    await driver().commit(task, { after: entries });
    expect(await driver().ledger.after.list(0, 2)).toHaveLength(2);
    await driver().ledger.after.strike(entries.map(({ key }) => key));
  });

  it('that were struck off do not come back when the commit is repeated', async () => {
    const { task } = await driver().running();
    const entries = [followUp()];
    await driver().commit(task, { after: entries });
    await driver().ledger.after.strike(entries.map(({ key }) => key));
    expect(await driver().commit(task, { after: entries })).toBe('ok');
    expect(await listed(entries, 0)).toEqual([]);
  });

  it('are not written for a refused commit', async () => {
    const { task } = await driver().running();
    const entries = [followUp()];
    await driver().commit({ ...task, run: 'foreign' }, { after: entries });
    expect(await listed(entries, 0)).toEqual([]);
  });
}

function givingBack(driver: () => LedgerDriver): void {
  it('counts a failure and waits out its delay', async () => {
    const { worker, envelope, task } = await driver().running();
    expect(await driver().fail(task, { delayMs: 10 * MINUTE })).toBe('ok');
    expect((await driver().begin(worker, { queues: [envelope.queue], limit: 1 })).begun).toEqual(
      [],
    );
    await driver().fixture.advance(11 * MINUTE);
    const { task: next } = await driver().beginWaiting(envelope);
    expect(next).toMatchObject({ id: envelope.id, epoch: 2, failures: 1, crashes: 0 });
    expect(bytesOf(next.envelope.body)).toEqual(bytesOf(envelope.body));
  });

  it('counts every failure', async () => {
    const { envelope, task } = await driver().running();
    await driver().fail(task);
    const { task: second } = await driver().beginWaiting(envelope);
    await driver().fail(second);
    const { task: third } = await driver().beginWaiting(envelope);
    expect(third).toMatchObject({ epoch: 3, failures: 2 });
  });

  it('counts a crash separately from failures, and the task keeps its position in the queue', async () => {
    const envelope = makeEnvelope();
    const { task } = await driver().running(envelope);
    await driver().fixture.advance(MINUTE);
    const later = makeEnvelope({ queue: envelope.queue });
    await driver().put(later);
    expect(await driver().fail(task, { isCrash: true })).toBe('ok');
    expect(await driver().fail(task, { isCrash: true })).toBe('ok');
    const { task: next } = await driver().beginWaiting(envelope);
    expect(next).toMatchObject({ id: envelope.id, epoch: 2, failures: 0, crashes: 1 });
  });

  it('buries a task whose crash budget is spent, with its error; its last run is a suspect', async () => {
    const { envelope, task } = await driver().running();
    await driver().fail(task, { isCrash: true });
    const { task: second } = await driver().beginWaiting(envelope);
    await driver().fail(second, { isCrash: true });
    const { task: third } = await driver().beginWaiting(envelope);
    expect(third).toMatchObject({ crashes: 2, failures: 0, isSuspect: true });
    const reason = 'ERR_RESURRECTIONS_SPENT';
    expect(await driver().fail(third, { isCrash: true, delayMs: null, reason })).toBe('ok');
    const letter = await driver().fixture.readModel.showDeadLetter(envelope.id);
    expect(letter?.reason).toBe(reason);
    expect(letter?.history.map(({ step }) => step).filter(step => step !== 'begun')).toEqual([
      'arrived',
      'crashed',
      'crashed',
      'dead',
    ]);
    expect(letter?.history.at(-1)?.error?.message).toBe('declined');
  });

  it('makes a released task due at once and counts nothing', async () => {
    const { worker, envelope, task } = await driver().running();
    expect(await driver().release(task)).toBe('ok');
    const { task: next } = await driver().beginWaiting(envelope, { worker });
    expect(next).toMatchObject({ id: envelope.id, epoch: 2, failures: 0, crashes: 0 });
  });

  it('delays a released task as asked, and counts nothing', async () => {
    const { worker, envelope, task } = await driver().running();
    expect(await driver().release(task, 10 * MINUTE)).toBe('ok');
    // The reply was lost: the repeat adds no delay.
    await driver().fixture.advance(5 * MINUTE);
    expect(await driver().release(task, 10 * MINUTE)).toBe('ok');
    const early = await driver().begin(worker, { queues: [envelope.queue], limit: 1 });
    expect(early.begun).toEqual([]);
    await driver().fixture.advance(6 * MINUTE);
    const { task: next } = await driver().beginWaiting(envelope, { worker });
    expect(next).toMatchObject({ id: envelope.id, epoch: 2, failures: 0, crashes: 0 });
  });

  it('gives each released item its own delay', async () => {
    const { worker, envelope, task } = await driver().running();
    const { envelope: laterEnvelope, task: later } = await driver().running();
    const refs = [later, task].map(({ id, epoch, run }) => ({ id, epoch, run }));
    const items = refs.map((ref, n) => (n === 0 ? { ...ref, delayMs: HOUR } : ref));
    expect(await driver().ledger.release(items)).toEqual(['ok', 'ok']);
    const queues = [laterEnvelope.queue, envelope.queue];
    const { begun } = await driver().begin(worker, { queues, limit: 2 });
    expect(ids(begun)).toEqual([envelope.id]);
  });

  it('wakes tasks that wait for a later time, and counts nothing', async () => {
    const { worker, envelope, task } = await driver().running();
    await driver().release(task, HOUR);
    await driver().ledger.wake([unique('task'), envelope.id, envelope.id]);
    const { task: next } = await driver().beginWaiting(envelope, { worker });
    expect(next).toMatchObject({ id: envelope.id, epoch: 2, failures: 0, crashes: 0 });
    await driver().ledger.wake([]);
  });

  it('wakes a task in its position: before those that were sent after it', async () => {
    const { worker, envelope, task } = await driver().running();
    await driver().release(task, HOUR);
    await driver().fixture.advance(MINUTE);
    const later = makeEnvelope({ queue: envelope.queue });
    await driver().put(later);
    await driver().fixture.advance(MINUTE);
    await driver().ledger.wake([envelope.id]);
    const { begun } = await driver().begin(worker, { queues: [envelope.queue], limit: 2 });
    expect(ids(begun)).toEqual([envelope.id, later.id]);
  });

  it('puts a task back into its position that has waited in vain', async () => {
    const { worker, envelope, task } = await driver().running();
    await driver().release(task, 2 * MINUTE);
    await driver().fixture.advance(MINUTE);
    const later = makeEnvelope({ queue: envelope.queue });
    await driver().put(later);
    await driver().fixture.advance(2 * MINUTE);
    await driver().ledger.wake([envelope.id]);
    const { begun } = await driver().begin(worker, { queues: [envelope.queue], limit: 2 });
    expect(ids(begun)).toEqual([envelope.id, later.id]);
  });

  it('does not wake running or ended tasks, and does not move due ones', async () => {
    const { worker, envelope, task } = await driver().running();
    const [done, dead] = [await driver().done(), await driver().dead()];
    const first = makeEnvelope();
    const second = makeEnvelope({ queue: first.queue });
    await driver().put(first);
    await driver().fixture.advance(MINUTE);
    await driver().put(second);
    await driver().ledger.wake([envelope.id, done.id, dead.id, first.id]);
    expect(await driver().state(done.id)).toBe('done');
    expect(await driver().state(dead.id)).toBe('dead');
    expect((await driver().begin(worker, { queues: [first.queue], limit: 1 })).begun).toMatchObject(
      [{ id: first.id }],
    );
    expect(await driver().commit(task)).toBe('ok');
  });

  it('parks a message for its delay, and leaves an existing record alone', async () => {
    const { worker, envelope, task } = await driver().running();
    const done = await driver().done();
    await driver().ledger.park([
      { envelope, delayMs: 0 },
      { envelope: done, delayMs: 0 },
    ]);
    const reply = await driver().begin(worker, { queues: [envelope.queue, done.queue], limit: 5 });
    expect(reply.begun).toEqual([]);
    expect(await driver().commit(task)).toBe('ok');
    expect(await driver().state(done.id)).toBe('done');
  });

  it('buries a parked message whose id belongs to another task, under its id and digest', async () => {
    const { envelope, task } = await driver().running();
    const conflicting = makeEnvelope({
      id: envelope.id,
      queue: envelope.queue,
      args: AWKWARD_BYTES,
    });
    await driver().ledger.park([{ envelope: conflicting, delayMs: 0 }]);
    const buriedId = `${envelope.id}#${conflicting.digest.slice(0, 16)}`;
    const letter = await driver().fixture.readModel.showDeadLetter(buriedId);
    expect(bytesOf(letter?.body)).toEqual(bytesOf(conflicting.body));
    expect(letter?.reason).toBe('ERR_DIGEST');
    expect(await driver().commit(task)).toBe('ok');
  });
}

function repeats(driver: () => LedgerDriver): void {
  const steps = {
    commit: (ref: RunRef) => driver().commit(ref),
    fail: (ref: RunRef) => driver().fail(ref),
    release: (ref: RunRef) => driver().release(ref),
    bury: (ref: RunRef) => driver().bury(ref),
  };
  const names = Object.keys(steps) as (keyof typeof steps)[];

  it.each(names)('answers absent to a %s of an unknown task', async name => {
    const ref = { id: unique('task'), epoch: 1, run: unique('run') };
    expect(await steps[name](ref)).toBe('absent');
    expect(await driver().fixture.readModel.inspect(ref.id)).toBeNull();
  });

  it.each(names)('answers stale to a %s by another run and changes nothing', async name => {
    const { envelope, task } = await driver().running();
    expect(await steps[name]({ ...task, run: unique('run') })).toBe('stale');
    expect(await steps[name]({ ...task, epoch: task.epoch + 1 })).toBe('stale');
    expect(await driver().state(envelope.id)).toBe('running');
    expect(await driver().commit(task)).toBe('ok');
  });

  it.each(names)('answers ok to a repeated %s', async name => {
    const { envelope, task } = await driver().running();
    expect(await steps[name](task)).toBe('ok');
    const before = await driver().fixture.readModel.inspect(envelope.id);
    expect(await steps[name](task)).toBe('ok');
    expect(await driver().fixture.readModel.inspect(envelope.id)).toEqual(before);
  });

  it.each(['fail', 'release'] as const)(
    'answers ok to a %s repeated after the next begin, and does not touch that run',
    async name => {
      const { envelope, task } = await driver().running();
      await steps[name](task);
      const { task: next } = await driver().beginWaiting(envelope);
      expect(await steps[name](task)).toBe('ok');
      expect(await driver().fixture.readModel.inspect(envelope.id)).toMatchObject({
        state: 'running',
        epoch: 2,
      });
      expect(await driver().commit(next)).toBe('ok');
    },
  );

  const pairs = names.flatMap(first =>
    names.filter(second => second !== first).map(second => [first, second] as const),
  );
  it.each(pairs)(
    'answers stale to a run that ended by %s and then tries to %s',
    async (first, second) => {
      const { envelope, task } = await driver().running();
      expect(await steps[first](task)).toBe('ok');
      const before = await driver().fixture.readModel.inspect(envelope.id);
      expect(await steps[second](task)).toBe('stale');
      expect(await driver().fixture.readModel.inspect(envelope.id)).toEqual(before);
    },
  );

  it('answers each item of a failing batch separately, in order', async () => {
    const { task: good } = await driver().running();
    const { task: other } = await driver().running();
    const refs = [{ id: unique('task'), epoch: 1, run: 'r' }, good, { ...other, run: 'foreign' }];
    const error = sampleError('no');
    const failing = refs.map(ref => ({ ref, error, delayMs: HOUR, reason: 'ERR_ATTEMPTS_SPENT' }));
    expect(await driver().ledger.fail(failing)).toEqual(['absent', 'ok', 'stale']);
    expect(await driver().ledger.release(refs)).toEqual(['absent', 'stale', 'stale']);
  });
}

function checkpoints(driver: () => LedgerDriver): void {
  it('stores growing progress, and hands it to the next run', async () => {
    const { envelope, task } = await driver().running();
    expect(await driver().ledger.checkpoint(task, 1, Uint8Array.from([1]))).toBe('ok');
    expect(await driver().ledger.checkpoint(task, 2, AWKWARD_BYTES)).toBe('ok');
    await driver().release(task);
    const { task: next } = await driver().beginWaiting(envelope);
    expect(bytesOf(next.checkpoint)).toEqual(bytesOf(AWKWARD_BYTES));
    expect(
      await driver().ledger.checkpoint(next, next.checkpointSeq + 1, Uint8Array.from([3])),
    ).toBe('ok');
    await driver().release(next);
    expect(bytesOf((await driver().beginWaiting(envelope)).task.checkpoint)).toEqual([3]);
  });

  it('refuses progress that does not grow within a run', async () => {
    const { envelope, task } = await driver().running();
    expect(await driver().ledger.checkpoint(task, 5, Uint8Array.from([5]))).toBe('ok');
    expect(await driver().ledger.checkpoint(task, 4, Uint8Array.from([4]))).toBe('stale');
    await driver().release(task);
    expect(bytesOf((await driver().beginWaiting(envelope)).task.checkpoint)).toEqual([5]);
  });

  it('answers ok to a repeated checkpoint', async () => {
    const { task } = await driver().running();
    expect(await driver().ledger.checkpoint(task, 1, Uint8Array.from([1]))).toBe('ok');
    expect(await driver().ledger.checkpoint(task, 1, Uint8Array.from([1]))).toBe('ok');
  });

  it('refuses progress of a run that no longer owns its task, and of an unknown task', async () => {
    const { envelope, task: old } = await driver().running();
    await driver().ledger.checkpoint(old, 1, Uint8Array.from([1]));
    await driver().release(old);
    expect(await driver().ledger.checkpoint(old, 2, Uint8Array.from([2]))).toBe('stale');
    const { task: next } = await driver().beginWaiting(envelope);
    expect(await driver().ledger.checkpoint(old, 3, Uint8Array.from([3]))).toBe('stale');
    expect(bytesOf(next.checkpoint)).toEqual([1]);
    expect(await driver().commit(next)).toBe('ok');
    expect(await driver().ledger.checkpoint(next, 9, Uint8Array.from([9]))).toBe('stale');
    expect(
      await driver().ledger.checkpoint({ ...old, id: unique('task') }, 1, Uint8Array.from([1])),
    ).toBe('absent');
  });

  it('keeps the progress of a dead worker', async () => {
    const { worker, envelope, task } = await driver().running();
    await driver().ledger.checkpoint(task, 1, Uint8Array.from([7]));
    const { returned } = await driver().crash(worker);
    expect(ids(returned)).toContain(envelope.id);
    expect(bytesOf((await driver().beginWaiting(envelope)).task.checkpoint)).toEqual([7]);
  });
}

function raising(driver: () => LedgerDriver): void {
  it('raises the epoch above the given one, and the run continues only under the new epoch', async () => {
    const { worker, envelope, task } = await driver().running();
    const epoch = task.epoch + 7;
    const raised = { ...task, epoch: epoch + 1 };
    expect(await driver().ledger.raiseEpoch(task, epoch)).toEqual({
      status: 'ok',
      epoch: epoch + 1,
    });
    expect(await driver().ledger.renew(worker)).toMatchObject({
      runs: [{ id: envelope.id, epoch: epoch + 1, run: task.run }],
    });
    expect(await driver().ledger.checkpoint(task, 1, Uint8Array.from([1]))).toBe('stale');
    expect(await driver().commit(task)).toBe('stale');
    expect(await driver().ledger.checkpoint(raised, 1, Uint8Array.from([1]))).toBe('ok');
    expect(await driver().release(raised)).toBe('ok');
    expect((await driver().beginWaiting(envelope)).task.epoch).toBe(epoch + 2);
  });

  it('answers a repeat the same, even when two come at once', async () => {
    const { task } = await driver().running();
    const answer = { status: 'ok', epoch: 41 };
    const both = [driver().ledger.raiseEpoch(task, 40), driver().ledger.raiseEpoch(task, 40)];
    expect(await Promise.all(both)).toEqual([answer, answer]);
    expect(await driver().ledger.raiseEpoch(task, 40)).toEqual(answer);
    expect(await driver().commit({ ...task, epoch: 41 })).toBe('ok');
  });

  it.each(['commit', 'fail', 'release', 'bury'] as const)(
    'answers ok to a %s repeated under the earlier epoch',
    async step => {
      const { worker, envelope, task } = await driver().running();
      const raised = { ...task, epoch: task.epoch + 8 };
      expect(await driver().ledger.raiseEpoch(task, task.epoch + 7)).toMatchObject({
        status: 'ok',
      });
      expect(await driver()[step](task)).toBe('stale');
      expect(await driver()[step](raised)).toBe('ok');
      const before = await driver().fixture.readModel.inspect(envelope.id);
      for (const ref of [task, raised]) expect(await driver()[step](ref)).toBe('ok');
      expect(await driver()[step]({ ...task, run: unique('run') })).toBe('stale');
      expect(await driver().fixture.readModel.inspect(envelope.id)).toEqual(before);
      expect(await driver().ledger.renew(worker)).toMatchObject({ runs: [] });
    },
  );

  it('keeps an epoch that is high enough, and reports whether the run owns the task', async () => {
    const { task } = await driver().running();
    const answer = { status: 'ok', epoch: task.epoch };
    expect(await driver().ledger.raiseEpoch(task, task.epoch - 1)).toEqual(answer);
    expect(await driver().ledger.raiseEpoch(task, 0)).toEqual(answer);
    expect(await driver().commit(task)).toBe('ok');
    expect(await driver().ledger.raiseEpoch(task, task.epoch - 1)).toEqual({ status: 'stale' });
  });

  it('raises nothing for a run that does not own its task, or for an unknown task', async () => {
    const { worker, envelope, task: old } = await driver().running();
    await driver().crash(worker);
    expect(await driver().ledger.raiseEpoch(old, 90)).toEqual({ status: 'stale' });
    const { task: next } = await driver().beginWaiting(envelope);
    for (const ref of [old, { ...next, run: unique('run') }, { ...next, epoch: next.epoch + 1 }])
      expect(await driver().ledger.raiseEpoch(ref, 90)).toEqual({ status: 'stale' });
    expect(await driver().commit(next)).toBe('ok');
    const unknown = { ...old, id: unique('task') };
    expect(await driver().ledger.raiseEpoch(unknown, 90)).toEqual({ status: 'absent' });
    expect(await driver().fixture.readModel.inspect(unknown.id)).toBeNull();
  });
}
