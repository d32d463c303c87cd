import { describe, expect, it } from 'vitest';
import {
  AWKWARD_BYTES,
  bytesOf,
  HOUR,
  ids,
  makeEnvelope,
  makeEnvelopes,
  MINUTE,
  plainEnvelope,
  unique,
} from './envelopes.ts';
import type { Death } from '../../src/ledger/death.ts';
import type { ReapReply } from '../../src/ledger/ledger.ts';
import { runRef, type LedgerDriver } from './ledger-driver.ts';

export function recoverySuite(driver: () => LedgerDriver): void {
  describe('renew', () => renewals(driver));
  describe('condemn', () => condemnations(driver));
  describe('reap', () => reaping(driver));
  describe('a death', () => deaths(driver));
  describe('a task that was brought back', () => broughtBack(driver));
  describe('crash budget', () => budgets(driver));
}

function renewals(driver: () => LedgerDriver): void {
  it('lists the runs of the process according to the store', async () => {
    const { worker } = await driver().open();
    expect(await driver().ledger.renew(worker)).toEqual({ status: 'open', runs: [] });
    const { task: first } = await driver().running(makeEnvelope(), { worker });
    const { task: second } = await driver().running(makeEnvelope(), { worker });
    const reply = await driver().ledger.renew(worker);
    if (reply.status !== 'open') throw new Error('closed');
    expect(reply.runs?.map(runRef)).toEqual(
      expect.arrayContaining([runRef(first), runRef(second)]),
    );
    expect(reply.runs).toHaveLength(2);
    await driver().commit(first);
    expect(await driver().ledger.renew(worker)).toEqual({ status: 'open', runs: [runRef(second)] });
  });

  it('extends the deadline of the whole process', async () => {
    const { worker } = await driver().open({ leaseMs: 10 * MINUTE });
    await driver().fixture.advance(7 * MINUTE);
    await driver().ledger.renew(worker);
    await driver().fixture.advance(7 * MINUTE);
    expect((await driver().ledger.condemn({ kind: 'expired' })).workers).not.toContain(worker);
    expect((await driver().ledger.renew(worker)).status).toBe('open');
  });

  it('is refused for an incarnation that is closed or was never opened', async () => {
    const { worker } = await driver().running();
    await driver().ledger.condemn({ kind: 'worker', worker });
    expect(await driver().ledger.renew(worker)).toEqual({ status: 'closed' });
    await driver().reapAll();
    expect(await driver().ledger.renew(worker)).toEqual({ status: 'closed' });
    expect(await driver().ledger.renew(unique('worker'))).toEqual({ status: 'closed' });
  });
}

function condemnations(driver: () => LedgerDriver): void {
  it('closes incarnations whose deadline has passed, and no others', async () => {
    const { worker: dead } = await driver().open({ leaseMs: 2 * MINUTE });
    const { worker: alive } = await driver().open({ leaseMs: 20 * MINUTE });
    expect((await driver().ledger.condemn({ kind: 'expired' })).workers).not.toContain(dead);
    await driver().fixture.advance(5 * MINUTE);
    const { workers } = await driver().ledger.condemn({ kind: 'expired' });
    expect(workers).toContain(dead);
    expect(workers).not.toContain(alive);
    expect((await driver().ledger.renew(dead)).status).toBe('closed');
    expect((await driver().ledger.renew(alive)).status).toBe('open');
  });

  it('spares an incarnation that renews late, but before it is condemned', async () => {
    const { worker } = await driver().open({ leaseMs: 2 * MINUTE });
    await driver().fixture.advance(5 * MINUTE);
    expect((await driver().ledger.renew(worker)).status).toBe('open');
    expect((await driver().ledger.condemn({ kind: 'expired' })).workers).not.toContain(worker);
  });

  it('closes all incarnations of a process that ended, whatever their deadline', async () => {
    const process = unique('process');
    const [first, second, other] = [
      await driver().open({ process }),
      await driver().open({ process }),
      await driver().open(),
    ];
    const { workers } = await driver().ledger.condemn({ kind: 'process', process });
    expect([...workers].sort()).toEqual([first.worker, second.worker].sort());
    expect((await driver().ledger.renew(other.worker)).status).toBe('open');
  });

  it('closes one incarnation by name', async () => {
    const process = unique('process');
    const [first, second] = [await driver().open({ process }), await driver().open({ process })];
    expect(
      (await driver().ledger.condemn({ kind: 'worker', worker: first.worker })).workers,
    ).toEqual([first.worker]);
    expect((await driver().ledger.renew(second.worker)).status).toBe('open');
  });

  it('reports each death once', async () => {
    const { worker } = await driver().running();
    expect((await driver().ledger.condemn({ kind: 'worker', worker })).workers).toEqual([worker]);
    expect((await driver().ledger.condemn({ kind: 'worker', worker })).workers).toEqual([]);
  });

  it('reports the time of the store', async () => {
    const first = await driver().nowMs();
    const { storeMs } = await driver().ledger.reap(0);
    expect(storeMs).toBeGreaterThanOrEqual(first);
    expect(storeMs - first).toBeLessThan(MINUTE);
  });

  it('leaves a task with one owner when a commit lands between condemn and reap', async () => {
    const { worker, envelope, task } = await driver().running();
    await driver().ledger.condemn({ kind: 'worker', worker });
    const status = await driver().commit(task);
    const { returned } = await driver().reapAll();
    expect(ids(returned).includes(envelope.id)).toBe(status !== 'ok');
    expect(await driver().state(envelope.id)).toBe(status === 'ok' ? 'done' : 'waiting');
  });
}

function reaping(driver: () => LedgerDriver): void {
  it('brings back the tasks of a dead worker: crash counted, due at once, under the next epoch', async () => {
    const { worker, envelope } = await driver().running();
    const { returned } = await driver().crash(worker);
    const { name, queue, id } = envelope;
    const lost = returned.filter(task => task.id === id);
    expect(lost).toMatchObject([{ name, queue, crashes: 1, worker }]);
    const { task } = await driver().beginWaiting(envelope);
    expect(task).toMatchObject({ epoch: 2, crashes: 1, failures: 0 });
    expect(bytesOf(task.envelope.body)).toEqual(bytesOf(envelope.body));
  });

  it('finds the tasks of a worker whose lease ends, however many reapers looked before', async () => {
    const { worker } = await driver().open({ leaseMs: 10 * MINUTE });
    const { envelope } = await driver().running(makeEnvelope(), { worker });
    for (let look = 0; look < 3; look++) {
      await driver().ledger.condemn({ kind: 'expired' });
      expect(ids((await driver().reapAll()).returned)).not.toContain(envelope.id);
      await driver().fixture.advance(3 * MINUTE);
    }
    await driver().fixture.advance(3 * MINUTE);
    await driver().ledger.condemn({ kind: 'expired' });
    expect(ids((await driver().reapAll()).returned)).toContain(envelope.id);
  });

  it('brings back the next run too, even if the stale run has tried to end it', async () => {
    const { worker, envelope, task: old } = await driver().running();
    await driver().crash(worker);
    const { worker: second } = await driver().beginWaiting(envelope);
    await driver().commit(old);
    await driver().fail(old, { delayMs: null });
    await driver().bury(old);
    await driver().release(old);
    expect(await driver().ledger.renew(second)).toMatchObject({ runs: [{ id: envelope.id }] });
    const { returned } = await driver().crash(second);
    expect(returned.find(({ id }) => id === envelope.id)).toMatchObject({ crashes: 2 });
    expect(await driver().fixture.readModel.showDeadLetter(envelope.id)).toBeNull();
  });

  it('takes nothing from the next run when the reaper slept since it closed the previous one', async () => {
    const { worker, envelope } = await driver().running();
    await driver().ledger.condemn({ kind: 'worker', worker });
    // Another reaper continues and a worker begins the task; only then does the first reaper wake.
    await driver().reapAll();
    const { task } = await driver().beginWaiting(envelope);
    const { returned, buried } = await driver().crash(worker);
    expect(ids([...returned, ...buried])).not.toContain(envelope.id);
    expect(await driver().commit(task)).toBe('ok');
  });

  it('finds a running task after another worker was refused its copy', async () => {
    const { worker, envelope } = await driver().running();
    const { worker: other } = await driver().open();
    const { answers } = await driver().begin(other, { messages: [envelope] });
    expect(answers).toEqual(['held']);
    expect(await driver().ledger.renew(other)).toEqual({ status: 'open', runs: [] });
    expect(ids((await driver().crash(worker)).returned)).toContain(envelope.id);
  });

  it('refuses every step of a dead run', async () => {
    const { worker, envelope, task } = await driver().running();
    await driver().crash(worker);
    const refuseAll = async (): Promise<void> => {
      expect(await driver().commit(task)).toBe('stale');
      expect(await driver().fail(task)).toBe('stale');
      expect(await driver().release(task)).toBe('stale');
      expect(await driver().bury(task)).toBe('stale');
      expect(await driver().ledger.checkpoint(task, 1, Uint8Array.from([1]))).toBe('stale');
    };
    await refuseAll();
    const { task: next } = await driver().beginWaiting(envelope);
    await refuseAll();
    expect(await driver().commit(next)).toBe('ok');
    await refuseAll();
  });

  it('leaves tasks of open incarnations alone', async () => {
    const { worker, envelope, task } = await driver().running();
    const { worker: dead } = await driver().running();
    const { returned, buried } = await driver().crash(dead);
    expect(ids([...returned, ...buried])).not.toContain(envelope.id);
    expect(await driver().ledger.renew(worker)).toMatchObject({ runs: [runRef(task)] });
  });

  it('works in chunks, and reports when there is more', async () => {
    await driver().reapAll();
    const { worker } = await driver().open();
    const queue = unique('queue');
    const tasks = makeEnvelopes(5, { queue });
    await driver().put(...tasks);
    await driver().begin(worker, { queues: [queue], limit: 5 });
    await driver().ledger.condemn({ kind: 'worker', worker });
    const first = await driver().ledger.reap(2);
    expect(first.returned).toHaveLength(2);
    expect(first.more).toBe(true);
    const rest = await driver().reapAll(2);
    expect([...ids(first.returned), ...ids(rest.returned)].sort()).toEqual(ids(tasks).sort());
    expect(await driver().ledger.reap(2)).toMatchObject({ returned: [], buried: [], more: false });
  });

  it('continues where a dead reaper stopped', async () => {
    const { worker } = await driver().open();
    const queue = unique('queue');
    await driver().put(...makeEnvelopes(3, { queue }));
    await driver().begin(worker, { queues: [queue], limit: 3 });
    await driver().ledger.condemn({ kind: 'worker', worker });
    await driver().ledger.reap(1);
    const { workers } = await driver().ledger.condemn({ kind: 'expired' });
    expect(workers).not.toContain(worker);
    await driver().reapAll();
    const { worker: other } = await driver().open();
    expect(
      (await driver().begin(other, { queues: [queue], limit: 5, suspects: 5 })).begun,
    ).toHaveLength(3);
  });

  it('counts a crash once, however often it is repeated', async () => {
    const { worker, envelope } = await driver().running();
    await driver().crash(worker);
    await driver().crash(worker);
    await driver().reapAll();
    expect((await driver().fixture.readModel.inspect(envelope.id))?.crashes).toBe(1);
  });
}

function deaths(driver: () => LedgerDriver): void {
  const history = async (id: string) =>
    ((await driver().fixture.readModel.inspect(id))?.history ?? [])
      .filter(({ step }) => step === 'reaped')
      .map(({ worker, error }) => [worker, error?.type, error?.message]);

  it('seen by a supervisor is in the reply, in the history of each task, and in the letter of the last one', async () => {
    const envelope = makeEnvelope();
    await driver().put(envelope);
    const died = async (death: Death): Promise<ReapReply['returned'][number] | undefined> => {
      const { worker, process } = await driver().open();
      await driver().beginWaiting(envelope, { worker, crashBudgets: { '*': 1 } });
      const reply = await driver().ledger.condemn({ kind: 'process', process, death });
      expect([reply.workers, reply.deaths]).toEqual([[worker], [death]]);
      const { returned, buried } = await driver().reapAll();
      const lost = [...returned, ...buried].find(({ id }) => id === envelope.id);
      expect(lost).toMatchObject({ worker, death });
      return lost;
    };
    const exit: Death = { kind: 'exited', message: 'exit code 7 "\\ \u{1f4a5}\u0001' };
    const first = await died(exit);
    expect(await history(envelope.id)).toEqual([[first?.worker, 'exited', exit.message]]);
    await died({ kind: 'stuck-loop', message: 'stood still' });
    const letter = await driver().fixture.readModel.showDeadLetter(envelope.id);
    expect(letter?.error).toBe('its worker died 2 times; the last time: stood still');
    expect(letter?.history.at(-1)).toMatchObject({ step: 'dead', error: { type: 'stuck-loop' } });
  });

  it('that nobody saw is a lost lease, or a lost host if no other worker of it has one', async () => {
    const [host, other] = [unique('host'), unique('host')];
    const leaseMs = 2 * MINUTE;
    const [one, two] = [
      await driver().open({ host, leaseMs }),
      await driver().open({ host: other, leaseMs }),
    ];
    await driver().open({ host });
    const envelope = makeEnvelope();
    await driver().put(envelope);
    await driver().beginWaiting(envelope, { worker: two.worker });
    await driver().fixture.advance(5 * MINUTE);
    const { workers, deaths: found } = await driver().ledger.condemn({ kind: 'expired' });
    const kindOf = (worker: string) => found[workers.indexOf(worker)]?.kind;
    expect([kindOf(one.worker), kindOf(two.worker)]).toEqual(['lease-lost', 'host-lost']);
    await driver().reapAll();
    expect((await history(envelope.id)).map(([, kind]) => kind)).toEqual(['host-lost']);
  });
}

function broughtBack(driver: () => LedgerDriver): void {
  it('is complete: bytes, options, queue, priority, version and times', async () => {
    const nowMs = await driver().nowMs();
    const envelope = makeEnvelope({
      args: AWKWARD_BYTES,
      options: AWKWARD_BYTES,
      embed: '{"chain":[{"task":"next"}]}',
      priority: 7,
      version: 3,
      expiresMs: nowMs + 24 * HOUR,
    });
    const { worker } = await driver().running(envelope);
    await driver().crash(worker);
    const { task } = await driver().beginWaiting(envelope);
    expect(plainEnvelope(task.envelope)).toEqual(plainEnvelope(envelope));
  });

  it('waits for a worker for any time, and no further crash is counted', async () => {
    const { worker, envelope } = await driver().running();
    await driver().crash(worker);
    for (let look = 0; look < 5; look++) {
      await driver().fixture.advance(10 * HOUR);
      await driver().ledger.condemn({ kind: 'expired' });
      const { returned, buried } = await driver().reapAll();
      expect(ids([...returned, ...buried])).not.toContain(envelope.id);
      await driver().ledger.prune(10_000);
    }
    const { task } = await driver().beginWaiting(envelope);
    expect(task).toMatchObject({ epoch: 2, crashes: 1, failures: 0 });
  });

  it('may run as long as its process sends heartbeats, and then commit', async () => {
    const { worker, envelope } = await driver().running();
    await driver().crash(worker);
    const { worker: next } = await driver().open({ leaseMs: 2 * HOUR });
    const { task } = await driver().beginWaiting(envelope, { worker: next });
    for (let hour = 0; hour < 25; hour++) {
      await driver().fixture.advance(HOUR);
      await driver().ledger.condemn({ kind: 'expired' });
      expect(await driver().ledger.renew(next)).toMatchObject({ runs: [runRef(task)] });
    }
    await driver().reapAll();
    expect(await driver().commit(task)).toBe('ok');
  });
}

function budgets(driver: () => LedgerDriver): void {
  it('buries a task that has crashed one worker more than it allows, with bytes, reason and history', async () => {
    const envelope = makeEnvelope();
    await driver().put(envelope);
    const crashOnce = async (): ReturnType<LedgerDriver['crash']> => {
      const { worker } = await driver().beginWaiting(envelope, { crashBudgets: { '*': 2 } });
      return driver().crash(worker);
    };
    expect(ids((await crashOnce()).returned)).toContain(envelope.id);
    expect(ids((await crashOnce()).returned)).toContain(envelope.id);
    const { returned, buried } = await crashOnce();
    expect(ids(returned)).not.toContain(envelope.id);
    expect(buried.find(({ id }) => id === envelope.id)).toMatchObject({
      name: envelope.name,
      queue: envelope.queue,
      crashes: 3,
    });
    const letter = await driver().fixture.readModel.showDeadLetter(envelope.id);
    expect(letter).toMatchObject({ where: 'worker', reason: 'ERR_RESURRECTIONS_SPENT' });
    expect(bytesOf(letter?.body)).toEqual(bytesOf(envelope.body));
    expect(letter?.history.map(({ epoch }) => epoch)).toEqual(expect.arrayContaining([1, 2, 3]));
    expect(ids((await driver().reapAll()).buried)).not.toContain(envelope.id);
  });

  it('starts again at zero for a revived task, which stays in its own queue', async () => {
    const envelope = makeEnvelope({ options: AWKWARD_BYTES });
    const crashBudgets = { '*': 1 };
    await driver().put(envelope);
    for (let crash = 0; crash < 2; crash++)
      await driver().crash((await driver().beginWaiting(envelope, { crashBudgets })).worker);
    const letter = await driver().fixture.readModel.showDeadLetter(envelope.id);
    expect(await driver().ledger.revive(envelope.id, letter?.version ?? -1)).toBe('ok');
    const { worker, task } = await driver().beginWaiting(envelope, { crashBudgets });
    expect(task).toMatchObject({ epoch: 3, crashes: 0 });
    expect(plainEnvelope(task.envelope)).toEqual(plainEnvelope(envelope));
    expect(ids((await driver().crash(worker)).returned)).toContain(envelope.id);
    expect(await driver().commit((await driver().beginWaiting(envelope)).task)).toBe('ok');
  });

  it('is looked up by the name of the task, or by the star', async () => {
    const { worker } = await driver().open();
    const [fragile, sturdy] = [makeEnvelope({ name: 'conformance.fragile' }), makeEnvelope()];
    const crashBudgets = { 'conformance.fragile': 0, '*': 1 };
    await driver().begin(worker, { messages: [fragile, sturdy], crashBudgets });
    const { returned, buried } = await driver().crash(worker);
    expect(ids(buried)).toContain(fragile.id);
    expect(ids(returned)).toContain(sturdy.id);
  });

  it('is not used up by failures or releases', async () => {
    const envelope = makeEnvelope();
    const { task } = await driver().running(envelope, { crashBudgets: { '*': 0 } });
    await driver().fail(task);
    const { task: second } = await driver().beginWaiting(envelope, { crashBudgets: { '*': 0 } });
    expect(await driver().release(second)).toBe('ok');
    expect(await driver().fixture.readModel.inspect(envelope.id)).toMatchObject({
      state: 'waiting',
      failures: 1,
      crashes: 0,
    });
  });
}
