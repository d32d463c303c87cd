import type { GenerationStore } from '../../src/ledger/generation-store.ts';

/** Generations in RAM: for tests, which lose the ledger and keep this. */
export class MemoryGenerationStore implements GenerationStore {
  readonly #nodes = new Map<string, { readonly shown: string; readonly generation: number }>();

  async settle(node: string, shown: string, atLeast: number): Promise<number> {
    const before = this.#nodes.get(node);
    const next = before === undefined ? 0 : before.generation + (before.shown === shown ? 0 : 1);
    const generation = Math.max(next, atLeast);
    this.#nodes.set(node, { shown, generation });
    return generation;
  }
}
