import { ANY_TEXT, anyChar, thisChar, Wildcard, type WildcardPart } from '../task/wildcard.ts';
import type { ControlRequest } from '../wire/control-message.ts';
import { SafePattern } from './safe-pattern.ts';

/** Longer than any node name. */
const MOST_CHARS = 256;

/** Whether a request is for this node; or why that cannot be decided, for the answer. */
export type Addressed = 'us' | 'others' | { readonly refusal: string };

/** By name, by pattern, or because it is for all. A foreign pattern never takes long. */
export function addressOf(node: string, request: ControlRequest): Addressed {
  const { destination, pattern, matcher } = request;
  const result = (isUs: boolean): Addressed => (isUs ? 'us' : 'others');
  if (destination !== null && destination.length > 0) return result(destination.includes(node));
  if (pattern === null || matcher === null) return 'us';
  if (pattern.length > MOST_CHARS)
    return { refusal: `a pattern may have up to ${MOST_CHARS} characters` };
  if (matcher === 'glob') return result(readGlob(pattern).test(node));
  if (matcher !== 'pcre') return 'others';
  try {
    return result(new SafePattern(pattern).test(node));
  } catch (error) {
    const why = error instanceof Error ? error.message : String(error);
    return { refusal: `the pattern cannot be used: ${why}; use a glob or the names of nodes` };
  }
}

/** The patterns of a shell: `*`, `?` and `[abc]`. */
function readGlob(glob: string): Wildcard {
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
