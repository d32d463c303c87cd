import { describe, expect, it } from 'vitest';
import type { GenerationStore } from '../../src/ledger/generation-store.ts';
import { unique } from './envelopes.ts';

/** Everything a store of generations must do. */
export function describeGenerationStore(name: string, store: () => GenerationStore): void {
  describe(`generation store: ${name}`, () => {
    it('begins with the lowest it is asked for, and never below 0', async () => {
      expect(await store().settle(unique('node'), 'a', -1)).toBe(0);
      expect(await store().settle(unique('node'), 'a', 0)).toBe(0);
      expect(await store().settle(unique('node'), 'a', 7)).toBe(7);
    });

    it('answers the same as long as the same is shown', async () => {
      const node = unique('node');
      await store().settle(node, 'a', 0);
      expect(await store().settle(node, 'a', 0)).toBe(0);
      expect(await store().settle(node, 'a', 0)).toBe(0);
    });

    it('rises by one when something else is shown, also when that was shown before', async () => {
      const node = unique('node');
      await store().settle(node, 'a', 0);
      expect(await store().settle(node, 'b', 0)).toBe(1);
      expect(await store().settle(node, 'b', 0)).toBe(1);
      expect(await store().settle(node, 'a', 0)).toBe(2);
    });

    it('rises to what it is asked for, and never falls', async () => {
      const node = unique('node');
      await store().settle(node, 'a', 5);
      expect(await store().settle(node, 'a', 9)).toBe(9);
      expect(await store().settle(node, 'a', 3)).toBe(9);
      expect(await store().settle(node, 'b', 3)).toBe(10);
      expect(await store().settle(node, 'c', 40)).toBe(40);
    });

    it('knows every ledger apart', async () => {
      const node = unique('node');
      await store().settle(node, 'a', 3);
      expect(await store().settle(unique('node'), 'b', 0)).toBe(0);
    });

    it('rises once when many notice at once', async () => {
      const node = unique('node');
      await store().settle(node, 'a', 0);
      const answers = await Promise.all(
        Array.from({ length: 10 }, () => store().settle(node, 'b', 1)),
      );
      expect(new Set(answers)).toEqual(new Set([1]));
    });
  });
}
