/** `shop.*` as a pattern: `*` stands for any text, `?` for one character, every other character for itself. */
export function globPattern(glob: string): Wildcard {
  const parts = Array.from(glob).map((char): WildcardPart => {
    if (char === '*') return ANY_TEXT;
    return char === '?' ? anyChar : thisChar(char);
  });
  return new Wildcard(parts);
}

/** The same with `*` alone: every other character, `?` too, stands for itself. */
export function starPattern(glob: string): Wildcard {
  return new Wildcard(Array.from(glob).map(char => (char === '*' ? ANY_TEXT : thisChar(char))));
}

/** The patterns of a shell, and of Python: `*`, `?` and `[abc]`. */
export function shellPattern(glob: string): Wildcard {
  const parts = glob.match(/\*+|\?|\[!?\]?[^\]]*\]|[^*?[]|\[/gsu) ?? [];
  return new Wildcard(
    parts.flatMap((part): WildcardPart[] => {
      if (part.startsWith('*')) return [ANY_TEXT];
      if (part === '?') return [anyChar];
      return part.length > 2 ? [classOf(part.slice(1, -1))] : Array.from(part).map(thisChar);
    }),
  );
}

function classOf(inside: string): (char: string) => boolean {
  const isNegated = inside.startsWith('!');
  const members = Array.from(inside.slice(isNegated ? 1 : 0));
  const ranges: (readonly [from: string, to: string])[] = [];
  for (let at = 0; at < members.length; at++) {
    const from = members[at] as string;
    const isRange = members[at + 1] === '-' && at + 2 < members.length;
    ranges.push([from, isRange ? (members[at + 2] as string) : from]);
    if (isRange) at += 2;
  }
  return char => ranges.some(([from, to]) => char >= from && char <= to) !== isNegated;
}

/** The same for SQL's LIKE with a backslash as its escape; null stays null. */
export function likePattern(glob: string | null): string | null {
  if (glob === null) return null;
  const escaped = glob.replaceAll(/[\\%_]/g, String.raw`\$&`);
  return escaped.replaceAll('*', '%').replaceAll('?', '_');
}

/** Any number of any characters. */
export const ANY_TEXT: unique symbol = Symbol('any text');
/** One character that must match, or any text. */
export type WildcardPart = typeof ANY_TEXT | ((char: string) => boolean);

/**
 * A pattern of single characters and stars. A regular expression made from a user's stars tries every way to split the
 * text among them, which takes for ever. Here only the last star is tried again: it can make up for whatever the stars
 * before it took. So a match costs at most the text's length times the pattern's parts.
 */
export class Wildcard {
  readonly #parts: readonly WildcardPart[];

  constructor(parts: readonly WildcardPart[]) {
    this.#parts = parts;
  }

  /** Whether the whole text matches. */
  test(text: string): boolean {
    const parts = this.#parts;
    const chars = Array.from(text);
    let [at, part] = [0, 0];
    let [star, tried] = [-1, 0];
    while (at < chars.length) {
      const next = parts[part];
      if (next === ANY_TEXT) {
        [star, tried] = [part, at];
        part += 1;
      } else if (next?.(chars[at] as string) === true) {
        at += 1;
        part += 1;
      } else if (star >= 0) {
        tried += 1;
        [at, part] = [tried, star + 1];
      } else {
        return false;
      }
    }
    while (parts[part] === ANY_TEXT) part += 1;
    return part === parts.length;
  }
}

const anyChar = (): boolean => true;
export const thisChar =
  (wanted: string) =>
  (char: string): boolean =>
    char === wanted;
