import { ANY_TEXT, anyChar, thisChar, Wildcard, type WildcardPart } from './wildcard.ts';

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

/** The same for SQL's LIKE with a backslash as its escape; null stays null. */
export function likePattern(glob: string | null): string | null {
  if (glob === null) return null;
  const escaped = glob.replaceAll(/[\\%_]/g, String.raw`\$&`);
  return escaped.replaceAll('*', '%').replaceAll('?', '_');
}
