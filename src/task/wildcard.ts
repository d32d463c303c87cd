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

export const anyChar = (): boolean => true;
export const thisChar =
  (wanted: string) =>
  (char: string): boolean =>
    char === wanted;
