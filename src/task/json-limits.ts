/** Deeper than real data: what we send has at most half of it, and its follow-ups wrap around that. */
export const MAX_JSON_DEPTH = 200;
/** As many as Python reads by default. Reading a longer number takes quadratic time, in every language. */
export const MAX_JSON_DIGITS = 4_300;
/** Signatures are split up level by level, and every level reads all that is inside: the most bytes read in all. */
const MAX_EMBED_STEPS = 33_554_432;
/** JSON as flat as ordinary data passes, whatever its size. */
const FLAT_LEVELS = 8;

/** Each level of JSON takes two bytes, and most bodies are shorter: they need not be read. */
const ALWAYS_BOUNDED = 2 * MAX_JSON_DEPTH;

const [QUOTE, BACKSLASH, COMMA, ZERO, NINE] = [0x22, 0x5c, 0x2c, 0x30, 0x39];
const [OPEN_LIST, CLOSE_LIST, OPEN_OBJECT, CLOSE_OBJECT] = [0x5b, 0x5d, 0x7b, 0x7d];

/**
 * Why JSON from another program must not be parsed; null: it may be. Reads every byte at most once, and runs before any step
 * that is more expensive: numbers of many digits and deep nesting would block the process for minutes. Whether the bytes
 * are JSON at all is left to the parser. In `[args, kwargs, embed]` the last is measured as well: it is split up by hand.
 */
export function jsonFault(bytes: Uint8Array): string | null {
  const { length } = bytes;
  if (length <= ALWAYS_BOUNDED) return null;
  let depth = 0;
  let part = 0;
  // Bytes of `embed`, each multiplied by the levels around it.
  let steps = 0;
  let steppedAt = 0;
  for (let at = 0; at < length; at++) {
    const byte = bytes[at] as number;
    if (byte === QUOTE) {
      at = endOfText(bytes, at + 1);
    } else if (byte >= ZERO && byte <= NINE) {
      const from = at;
      while (at + 1 < length && isDigit(bytes[at + 1] as number)) at += 1;
      if (at - from >= MAX_JSON_DIGITS)
        return `it has a number of more than ${MAX_JSON_DIGITS} digits`;
    } else if (byte === COMMA) {
      if (depth !== 1) continue;
      part += 1;
      steppedAt = at;
    } else if (byte === OPEN_LIST || byte === OPEN_OBJECT) {
      if (part >= 2) steps += (depth - 1) * (at - steppedAt);
      steppedAt = at;
      depth += 1;
      if (depth > MAX_JSON_DEPTH) return `it is nested deeper than ${MAX_JSON_DEPTH} levels`;
    } else if (byte === CLOSE_LIST || byte === CLOSE_OBJECT) {
      if (part >= 2) steps += (depth - 1) * (at - steppedAt);
      steppedAt = at;
      depth -= 1;
    }
  }
  const isFlat = steps <= Math.max(MAX_EMBED_STEPS, FLAT_LEVELS * length);
  return isFlat ? null : 'what follows it is too large to be nested so deep';
}

const isDigit = (byte: number): boolean => byte >= ZERO && byte <= NINE;

/** Most texts are shorter: a call to search for their end would take longer than a loop over the bytes. */
const SHORT = 24;

/** The end of the text that begins here: its closing quote, or the end of the bytes. */
function endOfText(bytes: Uint8Array, from: number): number {
  let at = from;
  for (const last = Math.min(from + SHORT, bytes.length); at < last; at++) {
    if (bytes[at] === QUOTE) return at;
    if (bytes[at] === BACKSLASH) at += 1;
  }
  for (;;) {
    const quote = bytes.indexOf(QUOTE, at);
    if (quote === -1) return bytes.length;
    let escapes = quote;
    while (escapes > at && bytes[escapes - 1] === BACKSLASH) escapes -= 1;
    if ((quote - escapes) % 2 === 0) return quote;
    at = quote + 1;
  }
}
