/** As many as there are names in anybody's headers, and then some. */
const SLOTS = 256;
/** Longer texts are ids, digests and values, which come once. */
const LONGEST = 32;

interface Known {
  readonly bytes: Buffer;
  readonly text: string;
}

/**
 * Texts that come with every message: the names of headers, of tasks, of who sent them. Making a text of bytes takes
 * longer than finding the one that was made last time.
 */
export class KnownTexts {
  readonly #slots: (Known | null)[] = Array.from({ length: SLOTS }, () => null);

  read(bytes: Buffer, from: number, to: number): string {
    const length = to - from;
    if (length === 0) return '';
    if (length > LONGEST) return bytes.toString('utf8', from, to);
    const ends = (bytes[from] as number) * 7 + (bytes[to - 1] as number) * 31;
    const slot = (length * 61 + ends) % SLOTS;
    const known = this.#slots[slot] as Known | null;
    if (known !== null && isSame(known.bytes, bytes, from, to)) return known.text;
    const text = bytes.toString('utf8', from, to);
    this.#slots[slot] = { bytes: Buffer.from(bytes.subarray(from, to)), text };
    return text;
  }
}

function isSame(known: Buffer, bytes: Buffer, from: number, to: number): boolean {
  if (known.length !== to - from) return false;
  for (let at = 0; at < known.length; at++) if (known[at] !== bytes[from + at]) return false;
  return true;
}
