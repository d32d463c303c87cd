import type { Random } from '../../src/runtime/runtime.ts';

/** Turns a seed and the name of a stream into four words of state. */
function hashWords(text: string): [number, number, number, number] {
  const words: [number, number, number, number] = [1779033703, 3144134277, 1013904242, 2773480762];
  const factors = [597399067, 2869860233, 951274213, 2716044179];
  for (let at = 0; at < text.length; at++) {
    const code = text.charCodeAt(at);
    for (let word = 0; word < 4; word++) {
      const mixed = (words[word] ?? 0) ^ code ^ (words[(word + 1) % 4] ?? 0);
      words[word] = Math.imul(mixed, factors[word] ?? 1) ^ (mixed >>> 15);
    }
  }
  return words;
}

/** Chance that a seed replays. Each part of a run draws from a stream of its own, so that none disturbs another. */
export class SeededRandom implements Random {
  readonly #words: [number, number, number, number];
  readonly #name: string;
  #tokens = 0;

  constructor(seed: number, stream: string) {
    this.#words = hashWords(`${seed}/${stream}`);
    this.#name = stream;
    for (let round = 0; round < 12; round++) this.next();
  }

  /** sfc32: small, fast, and good enough to shuffle faults. */
  next(): number {
    const words = this.#words;
    const sum = (words[0] + words[1] + words[3]) | 0;
    words[3] = (words[3] + 1) | 0;
    words[0] = words[1] ^ (words[1] >>> 9);
    words[1] = (words[2] + (words[2] << 3)) | 0;
    words[2] = ((words[2] << 21) | (words[2] >>> 11)) + sum;
    return (sum >>> 0) / 4294967296;
  }

  /** Unique because streams have different names; readable in a journal. */
  token(): string {
    this.#tokens += 1;
    return `${this.#name}.${this.#tokens}`;
  }

  chance(probability: number): boolean {
    return probability > 0 && this.next() < probability;
  }

  /** A whole number from `min` to `max`, both included. */
  int(min: number, max: number): number {
    return min + Math.floor(this.next() * (max - min + 1));
  }

  pick<T>(items: readonly T[]): T {
    const item = items[this.int(0, items.length - 1)];
    if (item === undefined) throw new Error('nothing to pick from');
    return item;
  }
}
