type Parts = readonly [args: Uint8Array, kwargs: Uint8Array, embed: Uint8Array];

const [QUOTE, BACKSLASH, COMMA] = [0x22, 0x5c, 0x2c];
const OPENING: ReadonlySet<number | undefined> = new Set([0x5b, 0x7b]);
const CLOSING: ReadonlySet<number | undefined> = new Set([0x5d, 0x7d]);

/**
 * The three texts of a body, as the outbox keeps them: joined again with brackets and commas they are the same bytes,
 * spaces included, so that its digest holds. Null: it is no list of three.
 */
export function splitBody(body: Uint8Array): Parts | null {
  const commas: number[] = [];
  let depth = 0;
  for (let at = 0; at < body.length; at++) {
    const byte = body[at];
    if (byte === QUOTE) at = endOfString(body, at);
    else if (OPENING.has(byte)) depth += 1;
    else if (CLOSING.has(byte)) depth -= 1;
    else if (byte === COMMA && depth === 1) commas.push(at);
  }
  const [first, second] = commas;
  const isThree = first !== undefined && second !== undefined && commas.length === 2;
  if (!isThree || body[0] !== 0x5b || body.at(-1) !== 0x5d) return null;
  return [
    body.subarray(1, first),
    body.subarray(first + 1, second),
    body.subarray(second + 1, body.length - 1),
  ];
}

/** The index of the closing quote of the string that begins here. */
function endOfString(body: Uint8Array, opening: number): number {
  let at = opening + 1;
  while (at < body.length && body[at] !== QUOTE) at += body[at] === BACKSLASH ? 2 : 1;
  return at;
}
