import { describe, expect, it } from 'vitest';
import { readSchedule } from '../config/schedule.ts';
import { type Runtime, noFaults } from '../runtime/runtime.ts';
import { task } from '../task/define-task.ts';
import { Keyring, NO_KEYS } from '../task/keyring.ts';
import { silentLogger } from '../telemetry/logger.ts';
import { outlastError } from '../errors/error.ts';
import { MemoryOutboxStore } from '../testing/memory/memory-outbox-store.ts';
import { MemoryOutboxWriter } from '../testing/memory/memory-outbox-writer.ts';
import { MemoryScheduleStore } from '../testing/memory/memory-schedule-store.ts';
import { Declarer } from './declarer.ts';
import { Scheduler } from './scheduler.ts';
import { ScheduleOperations } from './schedules.ts';

const tick = task('test.tick');
const MINUTE = 60_000;
const START_MS = Date.parse('2026-06-01T00:00:00Z');

const away = (): Error =>
  outlastError('ERR_STORE_UNAVAILABLE', {
    message: 'the ledger is away',
    hint: 'Wait.',
    fields: {},
  });

function setup({ keyring = NO_KEYS }: { keyring?: Keyring } = {}) {
  let nowMs = START_MS;
  let tokens = 0;
  const clock = { now: () => nowMs };
  const outbox = new MemoryOutboxStore({ clock });
  const memory = new MemoryScheduleStore({ clock, writer: new MemoryOutboxWriter(outbox) });
  const events: string[] = [];
  const runtime = {
    clock,
    random: { next: () => 0, token: () => `token-${++tokens}` },
    log: silentLogger,
    emit: (name: string) => events.push(name),
    faultPoint: noFaults,
  } as unknown as Runtime;
  const states = new Map<string, 'running' | 'done'>();
  const ledger = { isAway: false, asked: 0 };
  const store = memory.through();
  const scheduler = (): Scheduler =>
    new Scheduler({
      store,
      outboxReads: { find: async () => null },
      ledgerReads: {
        states: async ids => {
          ledger.asked += 1;
          if (ledger.isAway) throw away();
          return ids.map(id => states.get(id) ?? 'running');
        },
      },
      keyring,
      runtime,
    });
  const compose = { maxPayloadBytes: 10_000, redact: null };
  const operations = new ScheduleOperations({ store, keyring, random: runtime.random, compose });
  const put = async (name: string, options: Record<string, unknown>) =>
    await operations.put(
      await operations.prepare(readSchedule(name, { call: tick.with(), ...options }, name)),
      { origin: 'api' },
    );
  const slots = (): readonly string[] =>
    [...outbox.rows.values()].map(({ envelope }) => {
      const { headers } = JSON.parse(Buffer.from(envelope.options).toString()) as {
        headers: Record<string, string>;
      };
      return `${headers['schedule']} ${headers['schedule-slot']?.slice(11, 16)}`;
    });
  const declarer = (own: Record<string, unknown>): Declarer =>
    new Declarer({
      store,
      operations,
      runtime,
      specs: Object.entries(own).map(([name, one]) => readSchedule(name, one, name)),
    });
  const pass = async (): Promise<void> => {
    while ((await scheduler().look()) === 0);
  };
  return {
    memory,
    store,
    states,
    ledger,
    outbox,
    events,
    scheduler,
    operations,
    put,
    slots,
    declarer,
    pass,
    advance: (ms: number) => (nowMs += ms),
  };
}

describe('a scheduler', () => {
  it('sends the task of each slot under an id that follows from schedule and slot', async () => {
    const { put, advance, pass, slots, outbox } = setup();
    await put('a', { every: '1m' });
    for (let minute = 0; minute < 3; minute++) {
      advance(MINUTE);
      await pass();
      await pass();
    }
    expect(slots()).toEqual(['a 00:01', 'a 00:02', 'a 00:03']);
    expect(new Set([...outbox.rows.values()].map(({ envelope }) => envelope.id)).size).toBe(3);
  });

  it('goes on with the others when one schedule cannot be read, and notes why', async () => {
    const { put, store, advance, pass, slots, events } = setup();
    await put('bad', { every: '1m' });
    await put('good', { every: '1m' });
    const bad = await store.read('bad');
    if (bad === null) throw new Error('it was put');
    await store.change({
      name: 'bad',
      seen: bad.version,
      to: { ...bad, definition: '{"cron":7}' },
      tasks: [],
    });
    advance(MINUTE);
    await pass();
    expect(slots()).toEqual(['good 00:01']);
    expect((await store.read('bad'))?.error).toContain('cannot be read');
    expect(events).toContain('schedule:failed');
  });

  it('signs nothing for a definition that no holder of a key has written', async () => {
    const keyring = new Keyring([{ id: 'k', secret: Buffer.alloc(32, 7) }]);
    const { put, store, advance, pass, slots } = setup({ keyring });
    await put('own', { every: '1m' });
    const own = await store.read('own');
    if (own === null) throw new Error('it was put');
    // A copy under another name is not one of ours either.
    await store.change({ name: 'forged', seen: null, to: own, tasks: [] });
    advance(MINUTE);
    await pass();
    expect(slots()).toEqual(['own 00:01']);
    expect((await store.read('forged'))?.error).toContain('signature');
  });

  it.each([
    ['skip', ['a 00:01', 'a 00:04'], 2],
    ['wait', ['a 00:01', 'a 00:02'], 0],
    ['allow', ['a 00:01', 'a 00:02', 'a 00:03', 'a 00:04'], 0],
  ])('with overlap %s respects a task that is not over', async (overlap, expected, missed) => {
    const { put, store, states, advance, pass, slots } = setup();
    let first = '';
    await put('a', { every: '1m', overlap, grace: '1h' });
    for (let minute = 1; minute <= 4; minute++) {
      // All tasks are running, until the first is done.
      if (minute === 4) states.set(first, 'done');
      advance(MINUTE);
      await pass();
      if (minute === 1) first = (await store.read('a'))?.lastTask ?? '';
    }
    expect(slots()).toEqual(expected);
    expect((await store.read('a'))?.missed).toBe(missed);
  });
});

describe('a ledger that does not answer', () => {
  it.each(['skip', 'wait'])(
    'holds up schedules with overlap %s alone, and they lose no slot',
    async overlap => {
      const { put, store, states, ledger, advance, scheduler, pass, slots } = setup();
      for (const name of ['a', 'b']) await put(name, { every: '1m', overlap, grace: '1h' });
      await put('c', { every: '1m' });
      advance(MINUTE);
      await pass();
      expect(slots()).toEqual(['a 00:01', 'b 00:01', 'c 00:01']);
      ledger.isAway = true;
      ledger.asked = 0;
      advance(MINUTE);
      await scheduler().look();
      expect(slots().slice(3)).toEqual(['c 00:02']);
      expect(ledger.asked).toBe(1);
      expect((await store.read('b'))?.error).toContain('the ledger is away');
      ledger.isAway = false;
      for (const name of ['a', 'b']) states.set((await store.read(name))?.lastTask ?? '', 'done');
      advance(10_000);
      await pass();
      expect(slots().slice(4)).toEqual(['a 00:02', 'b 00:02']);
      expect(await store.read('a')).toMatchObject({ error: null, missed: 0 });
    },
  );
});

describe('a schedule that is put again', () => {
  it('fires the due slots of the old definition, and none twice', async () => {
    const { put, advance, pass, slots } = setup();
    await put('a', { every: '1m' });
    advance(MINUTE + 1);
    expect(await put('a', { every: '2m' })).toBe('changed');
    expect(await put('a', { every: '2m' })).toBe('same');
    advance(MINUTE);
    await pass();
    expect(slots()).toEqual(['a 00:01', 'a 00:02']);
  });

  it('does not count from before a slot that fired while it was being put', async () => {
    const { put, memory, store, advance, pass } = setup();
    await put('a', { every: '1m' });
    advance(MINUTE - 1);
    const real = memory.through();
    let isFirst = true;
    store.read = async name => {
      if (isFirst) {
        isFirst = false;
        advance(1);
        await pass();
      }
      return await real.read(name);
    };
    await put('a', { every: '30s' });
    expect((await real.read('a'))?.lastSlotMs).toBe(START_MS + MINUTE);
    expect((await real.read('a'))?.nextSlotMs).toBe(START_MS + MINUTE + 30_000);
  });

  it('keeps its due slot where only the task changes', async () => {
    const { put, advance, pass, slots } = setup();
    await put('a', { every: '1m' });
    advance(MINUTE + 1);
    await put('a', { every: '1m', overlap: 'skip' });
    await pass();
    expect(slots()).toEqual(['a 00:01']);
  });

  it('after a pause goes on with the next slot', async () => {
    const { put, operations, advance, pass, slots } = setup();
    await put('a', { every: '1m' });
    expect(await operations.pause('a')).toBe(true);
    advance(5 * MINUTE + 1);
    await pass();
    expect(await operations.resume('a')).toBe(true);
    await pass();
    expect(slots()).toEqual([]);
    advance(MINUTE);
    await pass();
    expect(slots()).toEqual(['a 00:06']);
  });
});

describe('schedules of configurations', () => {
  const hourly = { call: tick.with(), every: '1m', catchUp: 'all', grace: '1s' };

  it('fire while a running process has them, and lose no slot when it comes back', async () => {
    const { declarer, advance, pass, slots } = setup();
    await declarer({ a: hourly }).look();
    advance(2 * MINUTE);
    await pass();
    expect(slots()).toEqual([]);
    await declarer({ a: hourly }).look();
    await pass();
    expect(slots()).toEqual(['a 00:01', 'a 00:02']);
  });

  it('of two deployments do not remove each other', async () => {
    const { declarer, advance, pass, slots } = setup();
    const [one, two] = [declarer({ a: hourly }), declarer({ b: hourly })];
    for (const own of [one, two, one, two]) await own.look();
    advance(MINUTE - 10_000);
    for (const own of [one, two]) await own.look();
    advance(10_000);
    await pass();
    expect(slots().toSorted()).toEqual(['a 00:01', 'b 00:01']);
  });

  it('that differ: the one started last counts, the other says so, and takes over when it has ended', async () => {
    const { declarer, store, advance } = setup();
    const [old, young] = [declarer({ a: hourly }), declarer({ a: { ...hourly, every: '5m' } })];
    await old.look();
    await young.look();
    await old.look();
    const disputed = await store.read('a');
    expect(disputed?.definition).toContain('300000');
    expect(disputed?.disputedUntilMs).toBeGreaterThan(START_MS);
    advance(2 * MINUTE);
    await old.look();
    expect((await store.read('a'))?.definition).toContain('60000');
  });

  it('that cannot be read stop none of the others', async () => {
    const { declarer, store, events } = setup();
    await declarer({ bad: { call: tick.with(), cron: '61 * * * *' }, good: hourly }).look();
    expect(await store.read('good')).not.toBeNull();
    expect(events).toContain('schedule:failed');
  });
});
