import { describe, expect, it } from 'vitest';
import { NO_KEYS } from '../../src/task/keyring.ts';
import { systemRandom } from '../../src/runtime/runtime.ts';
import type { ScheduleStore, StoredSchedule } from '../../src/schedule/schedule-store.ts';
import { readSchedule } from '../../src/config/schedule.ts';
import { composeTemplate, slotId, taskOf } from '../../src/schedule/template.ts';
import { task } from '../../src/task/define-task.ts';
import type { NewTask } from '../../src/outbox/outbox-writer.ts';

export interface ScheduleFixture {
  readonly store: ScheduleStore;
  /** Rows of the outbox with this id. */
  readonly rows: (id: string) => Promise<number>;
}

const ping = task('schedule.ping');

async function composed(name: string, slotMs: number, nowMs: number): Promise<NewTask> {
  const { call, ...timing } = readSchedule(name, { call: ping.with(), every: '1m' }, name);
  const template = await composeTemplate(name, call, {
    nowMs,
    maxPayloadBytes: 10_000,
    redact: null,
  });
  const id = slotId(name, slotMs);
  return taskOf({ ...timing, task: template }, { schedule: name, id, slotMs, nowMs }, NO_KEYS);
}

function row(changes: Partial<StoredSchedule> = {}): Omit<StoredSchedule, 'name'> {
  return {
    version: systemRandom.token(),
    origin: 'api',
    isPaused: false,
    definition: '{}',
    digest: 'd',
    seal: null,
    nextSlotMs: 1_000,
    dueMs: 1_000,
    lastSlotMs: null,
    lastTask: null,
    fired: 0,
    missed: 0,
    error: null,
    declaredUntilMs: null,
    disputedUntilMs: null,
    ...changes,
  };
}

export function describeScheduleStore(title: string, open: () => ScheduleFixture): void {
  describe(`schedule store: ${title}`, () => {
    const newName = (): string => `s-${systemRandom.token()}`;
    const isDue = async (store: ScheduleStore, name: string): Promise<boolean> =>
      (await store.due(1_000)).some(schedule => schedule.name === name);

    async function stored(changes: Partial<StoredSchedule> = {}) {
      const fixture = open();
      const name = newName();
      const to = row(changes);
      expect(await fixture.store.change({ name, seen: null, to, tasks: [] })).toBe('ok');
      return { ...fixture, name, to };
    }

    it('gives back what was stored', async () => {
      const changes = {
        lastSlotMs: 1_790_000_000_123,
        lastTask: 'a',
        fired: 7,
        missed: 2,
        error: 'no',
        seal: 'k.1',
        disputedUntilMs: 5,
      };
      const { store, name, to } = await stored(changes);
      expect(await store.read(name)).toEqual({ ...to, name });
      expect(await store.list('', 10_000)).toContainEqual({ ...to, name });
      expect(await store.read(newName())).toBeNull();
    });

    it('writes the tasks and the advance together, and takes a second decision for the same state as stale', async () => {
      const { store, rows, name, to } = await stored();
      const { nowMs } = await store.clock();
      const tasks = [await composed(name, 1_000, nowMs), await composed(name, 61_000, nowMs)];
      const next = row({ nextSlotMs: 121_000, dueMs: 121_000 });
      const advance = { name, seen: to.version, to: next, tasks };
      const answers = await Promise.all([store.change(advance), store.change(advance)]);
      expect(answers.toSorted()).toEqual(['ok', 'stale']);
      expect(await store.change(advance)).toBe('stale');
      for (const { id } of tasks) expect(await rows(id)).toBe(1);
      expect((await store.read(name))?.nextSlotMs).toBe(121_000);
    });

    it('writes no task of a stale decision', async () => {
      const { store, rows, name } = await stored();
      const tasks = [await composed(name, 1_000, 0)];
      expect(await store.change({ name, seen: 'other', to: row(), tasks })).toBe('stale');
      expect(await store.change({ name, seen: null, to: row(), tasks })).toBe('stale');
      expect(await rows(slotId(name, 1_000))).toBe(0);
    });

    it('takes the task of a slot that was sent before as a copy', async () => {
      const { store, rows, name, to } = await stored();
      const tasks = [await composed(name, 1_000, 0)];
      const again = row();
      expect(await store.change({ name, seen: to.version, to: again, tasks })).toBe('ok');
      expect(await store.change({ name, seen: again.version, to: row(), tasks })).toBe('ok');
      expect(await rows(slotId(name, 1_000))).toBe(1);
    });

    it('shows as due what is due, not paused, and vouched for', async () => {
      const { store } = open();
      const { nowMs } = await store.clock();
      const [past, future] = [nowMs - 60_000, nowMs + 3_600_000];
      const config = (declaredUntilMs: number) => ({ origin: 'config' as const, declaredUntilMs });
      expect(await isDue(store, (await stored()).name)).toBe(true);
      expect(await isDue(store, (await stored({ dueMs: future })).name)).toBe(false);
      expect(await isDue(store, (await stored({ dueMs: null })).name)).toBe(false);
      expect(await isDue(store, (await stored({ isPaused: true })).name)).toBe(false);
      expect(await isDue(store, (await stored(config(past))).name)).toBe(false);
      expect(await isDue(store, (await stored(config(future))).name)).toBe(true);
    });

    it('prolongs a schedule of a configuration only as it is stored, and never takes that back', async () => {
      const { store, name, to } = await stored({
        origin: 'config',
        declaredUntilMs: 1,
        digest: 'x',
      });
      expect(await store.declare([{ name, digest: 'y' }], 60_000, 1)).toEqual([]);
      expect(await isDue(store, name)).toBe(false);
      expect(await store.declare([{ name, digest: 'x' }], 60_000, 1)).toEqual([name]);
      expect(await isDue(store, name)).toBe(true);
      expect(await store.change({ name, seen: to.version, to, tasks: [] })).toBe('ok');
      expect(await isDue(store, name)).toBe(true);
    });

    it('deletes what was seen, and what no process has vouched for', async () => {
      const { store, name, to } = await stored();
      expect(await store.change({ name, seen: to.version, to: null, tasks: [] })).toBe('ok');
      expect(await store.read(name)).toBeNull();
      const old = await stored({ origin: 'config', declaredUntilMs: 1 });
      await store.prune(60_000);
      // The memory store of the fixture is one; SQL stores share their table.
      expect(await old.store.read(old.name)).toBeNull();
    });
  });
}
