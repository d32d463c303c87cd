/** Far more than any message has header names: two names in one slot would keep evicting each other. */
const SLOTS = 1_024;
/** Longer texts are ids, digests and values, which do not repeat. */
const LONGEST = 32;

interface Known {
  readonly bytes: Buffer;
  readonly text: string;
}

/**
 * Texts that come with every message: names of headers, tasks and senders. Decoding bytes takes longer than finding the
 * text decoded last time.
 */
export class KnownTexts {
  readonly #slots: (Known | null)[] = Array.from({ length: SLOTS }, () => null);

  read(bytes: Buffer, from: number, to: number): string {
    const length = to - from;
    if (length === 0) return '';
    if (length > LONGEST) return bytes.toString('utf8', from, to);
    const slot = slotOf(bytes, from, length);
    const known = this.#slots[slot] as Known | null;
    if (known !== null && isSame(known.bytes, bytes, from, to)) return known.text;
    const text = bytes.toString('utf8', from, to);
    this.#slots[slot] = { bytes: Buffer.from(bytes.subarray(from, to)), text };
    return text;
  }
}

/** Hashes the length and four of the bytes. */
function slotOf(bytes: Buffer, from: number, length: number): number {
  let mixed = length;
  mixed = mixed * 31 + (bytes[from] as number);
  mixed = mixed * 31 + (bytes[from + (length >> 2)] as number);
  mixed = mixed * 31 + (bytes[from + (length >> 1)] as number);
  mixed = mixed * 31 + (bytes[from + length - 1] as number);
  return mixed % SLOTS;
}

function isSame(known: Buffer, bytes: Buffer, from: number, to: number): boolean {
  if (known.length !== to - from) return false;
  for (let at = 0; at < known.length; at++) if (known[at] !== bytes[from + at]) return false;
  return true;
}
