import { shellPattern } from '../task/glob.ts';
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
  if (matcher === 'glob') return result(shellPattern(pattern).test(node));
  if (matcher !== 'pcre') return 'others';
  try {
    return result(new SafePattern(pattern).test(node));
  } catch (error) {
    const why = error instanceof Error ? error.message : String(error);
    return { refusal: `the pattern cannot be used: ${why}; use a glob or the names of nodes` };
  }
}
