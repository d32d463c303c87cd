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
