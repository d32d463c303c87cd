import type { ChildProcess } from 'node:child_process';
import { writeFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { createAdmin } from '../../dist/admin/index.js';
import { task, unchecked, type TaskHandle } from '../../dist/index.js';
import { unique } from '../conformance/envelopes.ts';
import { until } from '../support/database.ts';
import { rabbitmqUrl } from '../support/servers.ts';
import { Dormitory, LEASE_MS, ownRedis, type Servers } from './dormitory.ts';

const effect = task('sleep.effect', {
  input: unchecked<{
    meets?: string;
    /** Later runs of the task continue when this file exists. */
    heirWaits?: string;
    isBare?: boolean;
    filling?: string;
  }>(),
  result: unchecked<{ pid: number }>(),
});
type Sent = TaskHandle<{ pid: number }>;

/** What a process left behind when it was killed or put to sleep between a short step and the long one. */
interface Half {
  readonly queue: string;
  readonly child: ChildProcess;
  readonly sent: readonly Sent[];
  /** Those of them that other workers run by the time it wakes. */
  readonly lost: readonly Sent[];
  /** Lets other workers end what they run. */
  readonly goOn: () => void;
  readonly cancelled: readonly Sent[];
}

type Action = 'kill' | 'stop';
type Arrange = (dormitory: Dormitory, action: Action) => Promise<Half>;

/** Half of the messages for the process have a record already, so the short step alone does not begin a batch. */
const beginInPart: Arrange = async (dormitory, action) => {
  const point = 'ledger.begun-in-part';
  const queue = unique('queue');
  const [sent, cancelled]: [Sent[], Sent[]] = [[], []];
  for (let n = 0; n < 5; n++) {
    const known = dormitory.outlast.find(effect, unique('known'));
    await known.cancel();
    cancelled.push(known);
    await dormitory.outlast.push(effect, {}, { queue, id: known.id });
    sent.push(await dormitory.outlast.push(effect, {}, { queue }));
  }
  const child = dormitory.start([queue], point, { action });
  await until(async () => dormitory.isAsleep(point, action));
  return { queue, child, sent, lost: [], goOn: () => undefined, cancelled };
};

/**
 * Two runs end together. The short step cannot end the second: `isTaken`, it was cancelled meanwhile; otherwise its bytes
 * are too long for it.
 */
const commitInPart =
  ({ isTaken }: { readonly isTaken: boolean }): Arrange =>
  async (dormitory, action) => {
    const point = 'ledger.committed-in-part';
    const queue = unique('queue');
    const child = dormitory.start([queue], point, { action });
    const [meets, heirWaits] = ['meets', 'heir'].map(name =>
      dormitory.fileOf(point, action, name),
    ) as [string, string];
    // It has its effect outside the door: a task that the short step has ended must not run again.
    const plain = await dormitory.outlast.push(effect, { meets, isBare: true }, { queue });
    const filling = isTaken ? '' : 'x'.repeat(2_000);
    const other = await dormitory.outlast.push(effect, { meets, heirWaits, filling }, { queue });
    for (const { id } of [plain, other])
      await until(async () => (await dormitory.epochsOf('effect', id)).length);
    if (isTaken) await other.cancel();
    writeFileSync(meets, '');
    await until(async () => dormitory.isAsleep(point, action));
    const goOn = (): void => writeFileSync(heirWaits, '');
    const pair = isTaken
      ? { sent: [plain], lost: [], cancelled: [other] }
      : { sent: [plain, other], lost: [other], cancelled: [] };
    return { queue, child, goOn, ...pair };
  };

const TIERS: readonly {
  readonly tier: string;
  readonly open: () => Promise<Servers>;
  readonly arrange: readonly Arrange[];
}[] = [
  {
    tier: 'PostgreSQL behind RabbitMQ',
    open: async () => ({ broker: rabbitmqUrl() }),
    arrange: [beginInPart, commitInPart({ isTaken: true })],
  },
  {
    tier: 'Redis',
    open: async () => ({ broker: await ownRedis() }),
    arrange: [commitInPart({ isTaken: false })],
  },
];

async function audit(dormitory: Dormitory, { sent, cancelled }: Half): Promise<void> {
  const { tasks } = createAdmin(dormitory.outlast);
  for (const { id } of sent) {
    const found = await tasks.inspect(id);
    const done = found?.history.filter(({ step }) => step === 'done') ?? [];
    expect([found?.state, done.length]).toEqual(['done', 1]);
    // The run that ended the task is the last one that was begun: no commit for a run that was taken away.
    expect(done[0]?.epoch).toBe(found?.epoch);
    expect(await dormitory.epochsOf('effect', id)).toHaveLength(1);
  }
  for (const { id } of cancelled) expect((await tasks.inspect(id))?.state).toBe('cancelled');
}

describe.each(TIERS)('on $tier', ({ open, arrange }) => {
  it('a worker killed, or asleep for twice its lease, between a short step and the long one loses nothing and commits nothing late', async () => {
    const dormitory = await Dormitory.open(await open());
    const halves = (action: Action): Promise<Half[]> =>
      Promise.all(arrange.map(make => make(dormitory, action)));
    const [killed, asleep] = await Promise.all([halves('kill'), halves('stop')]);
    const asleepAt = await dormitory.nowMs();
    const all = [...killed, ...asleep];
    const others = dormitory.start(all.map(({ queue }) => queue));
    await until(async () => (await dormitory.nowMs()) > asleepAt + 2 * LEASE_MS);
    for (const { lost } of all)
      for (const { id } of lost)
        await until(async () => (await dormitory.epochsOf('run', id)).length === 2);
    for (const { child } of asleep) child.kill('SIGCONT');
    for (const { child } of asleep) expect(await dormitory.end(child)).toBe(0);
    for (const { child } of killed) expect(await dormitory.ended(child)).toBe('SIGKILL');
    for (const { goOn } of all) goOn();
    for (const { sent } of all) for (const one of sent) await one.result({ timeout: '60s' });
    for (const { lost } of all)
      for (const one of lost) expect(await one.result()).toEqual({ pid: others.pid });
    for (const half of all) await audit(dormitory, half);
    expect(await dormitory.end(others)).toBe(0);
  });
});
