/**
 * Splits JSON without parsing its values: what is inside stays the same text, so that arguments pass through a worker byte
 * for byte (`1.0` stays `1.0`, an integer beyond 2^53 stays itself, `__proto__` stays a key). The text must be JSON: the
 * caller has parsed it once.
 */

/** The texts of the items of a JSON array. */
export function itemsOf(array: string): readonly string[] {
  return slices(array, '[', ']').map(([from, to]) => array.slice(from, to));
}

/** The texts of the members of a JSON object, by key; of duplicate keys the last counts, as in `JSON.parse`. */
export function membersOf(object: string): ReadonlyMap<string, string> {
  const members = new Map<string, string>();
  for (const [from, to] of slices(object, '{', '}')) {
    const keyEnd = endOfString(object, from);
    const colon = object.indexOf(':', keyEnd);
    members.set(
      JSON.parse(object.slice(from, keyEnd)) as string,
      object.slice(colon + 1, to).trim(),
    );
  }
  return members;
}

/** Joins texts to an object; undefined members are left out. */
export function objectOf(members: Readonly<Record<string, string | undefined>>): string {
  const texts = Object.entries(members).flatMap(([key, text]) =>
    text === undefined ? [] : [`${JSON.stringify(key)}:${text}`],
  );
  return `{${texts.join(',')}}`;
}

/** Where the parts of an array or object begin and end, without the space around them. */
function slices(text: string, opening: string, closing: string): readonly [number, number][] {
  const inside = text.trim();
  if (!inside.startsWith(opening) || !inside.endsWith(closing))
    throw new TypeError(`${opening}…${closing} expected`);
  const end = text.lastIndexOf(closing);
  const parts: [number, number][] = [];
  let from = text.indexOf(opening) + 1;
  let depth = 0;
  for (let at = from; at < end; at++) {
    const char = text[at];
    if (char === '"') at = endOfString(text, at) - 1;
    else if (char === '[' || char === '{') depth += 1;
    else if (char === ']' || char === '}') depth -= 1;
    else if (char === ',' && depth === 0) {
      parts.push(trimmed(text, from, at));
      from = at + 1;
    }
  }
  const last = trimmed(text, from, end);
  return last[0] === last[1] ? parts : [...parts, last];
}

/** The index after the closing quote of the string that begins here. */
function endOfString(text: string, opening: number): number {
  let at = opening + 1;
  while (at < text.length && text[at] !== '"') at += text[at] === '\\' ? 2 : 1;
  return at + 1;
}

function trimmed(text: string, from: number, to: number): [number, number] {
  const isSpace = (at: number): boolean => /\s/.test(text[at] ?? '');
  let [start, end] = [from, to];
  while (start < end && isSpace(start)) start += 1;
  while (end > start && isSpace(end - 1)) end -= 1;
  return [start, end];
}
