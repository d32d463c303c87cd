import { describe, expect, it } from 'vitest';
import type { CheckpointKey, CheckpointStore } from '../../src/ledger/checkpoint-store.ts';
import { unique } from './envelopes.ts';

/** Everything a store of large checkpoints must do. */
export function describeCheckpointStore(name: string, store: () => CheckpointStore): void {
  describe(`checkpoint store: ${name}`, () => {
    const keyOf = (epoch = 1, seq = 1, taskId = unique('task')): CheckpointKey => ({
      taskId,
      epoch,
      seq,
    });
    const bytes = (size: number, fill: number): Uint8Array => new Uint8Array(size).fill(fill);
    const read = async (key: CheckpointKey, size: number): Promise<Uint8Array | null> => {
      const found = await store().read(key, size);
      return found === null ? null : new Uint8Array(found);
    };

    it('returns the written bytes unchanged, even after a second write', async () => {
      const key = keyOf();
      const data = bytes(5_000_000, 7);
      await store().write(key, data);
      await store().write(key, data);
      expect(Buffer.compare((await read(key, data.length)) ?? bytes(0, 0), data)).toBe(0);
    });

    it('returns nothing for a checkpoint that is missing or incomplete', async () => {
      const key = keyOf();
      expect(await read(key, 3)).toBeNull();
      await store().write(key, bytes(3, 1));
      expect(await read(key, 4)).toBeNull();
    });

    it('separates runs and sequences, so that a stale run overwrites nothing', async () => {
      const [newer, older] = [keyOf(2, 1), keyOf(1, 1)];
      const zombie = { ...older, taskId: newer.taskId };
      await store().write(newer, bytes(3, 2));
      await store().write(zombie, bytes(3, 1));
      await store().remove(zombie);
      await store().remove(zombie);
      expect(await read(newer, 3)).toEqual(bytes(3, 2));
      expect(await read(zombie, 3)).toBeNull();
    });

    it.each(['../../etc/passwd', '/etc/passwd', '..', 'a/b', 'C:/x', 'x'.repeat(128)])(
      'treats the id %s as a name, never as a path',
      async id => {
        const key = keyOf(1, 1, `${id.slice(0, 90)}/${unique('id')}`);
        await store().write(key, bytes(3, 1));
        expect(await read(key, 3)).toEqual(bytes(3, 1));
        expect(await store().list(-60_000, 1_000, null)).toContainEqual(key);
        await store().remove(key);
        expect(await store().list(-60_000, 1_000, null)).not.toContainEqual(key);
      },
    );

    it('lists old checkpoints page by page', async () => {
      const keys = [keyOf(1, 1), keyOf(1, 2), keyOf(2, 1)];
      for (const key of keys) await store().write(key, bytes(1, 1));
      const found: CheckpointKey[] = [];
      for (let after: CheckpointKey | null = null; ;) {
        const page: readonly CheckpointKey[] = await store().list(-60_000, 1, after);
        if (page.length === 0) break;
        found.push(...page);
        after = page[0] ?? null;
      }
      expect(found).toEqual(expect.arrayContaining(keys));
      expect(new Set(found.map(key => JSON.stringify(key))).size).toBe(found.length);
      expect(await store().list(3_600_000, 1_000, null)).toEqual([]);
    });
  });
}
