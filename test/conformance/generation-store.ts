import { describe, expect, it } from 'vitest';
import type { GenerationStore } from '../../src/ledger/generation-store.ts';
import { unique } from './envelopes.ts';

/** Everything a store of generations must do. */
export function describeGenerationStore(name: string, store: () => GenerationStore): void {
  describe(`generation store: ${name}`, () => {
    it('starts a ledger at the requested minimum, and never below 0', async () => {
      expect(await store().settle(unique('node'), 'a', -1)).toBe(0);
      expect(await store().settle(unique('node'), 'a', 0)).toBe(0);
      expect(await store().settle(unique('node'), 'a', 7)).toBe(7);
    });

    it('returns the same generation while the ledger has the same identity', async () => {
      const node = unique('node');
      await store().settle(node, 'a', 0);
      expect(await store().settle(node, 'a', 0)).toBe(0);
      expect(await store().settle(node, 'a', 0)).toBe(0);
    });

    it('raises the generation by one when the identity changes, even back to an earlier one', async () => {
      const node = unique('node');
      await store().settle(node, 'a', 0);
      expect(await store().settle(node, 'b', 0)).toBe(1);
      expect(await store().settle(node, 'b', 0)).toBe(1);
      expect(await store().settle(node, 'a', 0)).toBe(2);
    });

    it('raises the generation to the requested minimum, and never lowers it', async () => {
      const node = unique('node');
      await store().settle(node, 'a', 5);
      expect(await store().settle(node, 'a', 9)).toBe(9);
      expect(await store().settle(node, 'a', 3)).toBe(9);
      expect(await store().settle(node, 'b', 3)).toBe(10);
      expect(await store().settle(node, 'c', 40)).toBe(40);
    });

    it('keeps a separate generation for each ledger', async () => {
      const node = unique('node');
      await store().settle(node, 'a', 3);
      expect(await store().settle(unique('node'), 'b', 0)).toBe(0);
    });

    it('raises the generation once when many processes notice a change at the same time', async () => {
      const node = unique('node');
      await store().settle(node, 'a', 0);
      const answers = await Promise.all(
        Array.from({ length: 10 }, () => store().settle(node, 'b', 1)),
      );
      expect(new Set(answers)).toEqual(new Set([1]));
    });
  });
}
