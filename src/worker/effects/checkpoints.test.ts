import { describe, expect, it } from 'vitest';
import { MemoryCheckpointStore } from '../../testing/memory/memory-checkpoint-store.ts';
import type { CheckpointKey } from '../../ledger/checkpoint-store.ts';
import { noFaults } from '../../runtime/runtime.ts';
import { toBytes, toText } from '../../task/json.ts';
import { silentLogger } from '../../telemetry/logger.ts';
import { LedgerDriver } from '../../../test/conformance/ledger-driver.ts';
import { makeLedger } from '../../../test/support/memory-ledger.ts';
import { Checkpoints } from './checkpoints.ts';

const LARGE = toBytes('"larger than eight bytes"');

async function setup() {
  const driver = new LedgerDriver(await makeLedger());
  const store = new MemoryCheckpointStore({ now: () => 0 });
  const runtime = { faultPoint: noFaults, log: silentLogger };
  const made = () =>
    new Checkpoints({ ledger: driver.ledger, store, maxBytes: 1_000, runtime, inlineBytes: 8 });
  const { task, envelope } = await driver.running();
  /** The same task, owned by the next run. */
  const again = async () => {
    await driver.release(task);
    return (await driver.beginWaiting(envelope)).task;
  };
  const kept = async (): Promise<readonly CheckpointKey[]> => await store.list(-1, 10, null);
  return { driver, store, made, task, again, kept };
}

describe('a large checkpoint', () => {
  it('of a run that has lost its task is not kept, and that of the next run is', async () => {
    const { made, task, again, kept } = await setup();
    const next = await again();
    const checkpoints = made();
    expect(await checkpoints.checkpoint(next, 1, LARGE)).toBe('ok');
    expect(await made().checkpoint(task, 1, LARGE)).toBe('stale');
    expect(await kept()).toEqual([{ taskId: task.id, epoch: next.epoch, seq: 1 }]);
  });

  it('is passed to the next run, and deleted when that has a newer one', async () => {
    const { made, task, again, kept } = await setup();
    await made().checkpoint(task, 1, LARGE);
    const checkpoints = made();
    const restored = await checkpoints.restore(await again());
    expect(toText(restored.checkpoint ?? toBytes(''))).toBe(toText(LARGE));
    await checkpoints.checkpoint(restored, restored.checkpointSeq + 1, toBytes('1'));
    expect(await kept()).toEqual([]);
  });

  it('that is missing counts as none for the owner of the task, and throws ERR_FENCE_STALE for any other run', async () => {
    const { store, made, task, again, kept } = await setup();
    await made().checkpoint(task, 1, LARGE);
    const next = await again();
    for (const key of await kept()) await store.remove(key);
    const late = { ...task, checkpoint: next.checkpoint, checkpointSeq: next.checkpointSeq };
    await expect(made().restore(late)).rejects.toMatchObject({ code: 'ERR_FENCE_STALE' });
    expect((await made().restore(next)).checkpoint).toBeNull();
  });
});
