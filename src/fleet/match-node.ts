import { runInNewContext } from 'node:vm';
import type { ControlRequest } from '../wire/control-message.ts';

const [MOST_CHARS, MOST_MS] = [256, 50];

/** Whether a request is meant for this node: by name, by pattern, or because it is for all. */
export function isMeantFor(node: string, request: ControlRequest): boolean {
  const { destination, pattern, matcher } = request;
  if (destination !== null && destination.length > 0) return destination.includes(node);
  if (pattern === null || matcher === null) return true;
  if (pattern.length > MOST_CHARS) return false;
  if (matcher === 'glob') return matchesGlob(node, pattern);
  return matcher === 'pcre' && matchesPattern(node, `^(?:${pattern})`);
}

/** The patterns of a shell: `*`, `?` and `[abc]`. */
function matchesGlob(name: string, glob: string): boolean {
  const source = glob.replaceAll(/\*+|\?|\[!?\]?[^\]]*\]|[^*?[]+|\[/g, part => {
    if (part.startsWith('*')) return '.*';
    if (part === '?') return '.';
    if (part.length > 2 && part.startsWith('[')) return classOf(part.slice(1, -1));
    return part.replaceAll(/[\\^$.*+?()[\]{}|]/g, '\\$&');
  });
  return matchesPattern(name, `^${source}$`);
}

function classOf(inside: string): string {
  const isNegated = inside.startsWith('!');
  const members = inside.slice(isNegated ? 1 : 0).replaceAll(/[\\\]^]/g, '\\$&');
  return `[${isNegated ? '^' : ''}${members}]`;
}

/**
 * Somebody else's pattern may take for ever: it gets a moment, in which nothing else can be reached. A moment of
 * computing: on a busy machine one of the clock may be over before the first character was looked at.
 */
function matchesPattern(name: string, source: string): boolean {
  const before = process.cpuUsage();
  do {
    try {
      const script = 'new RegExp(source, "s").test(name)';
      return runInNewContext(script, { name, source }, { timeout: MOST_MS }) === true;
    } catch (error) {
      if (!isTimeout(error)) return false;
    }
  } while (msSince(before) < MOST_MS);
  return false;
}

const isTimeout = (error: unknown): boolean =>
  error instanceof Error && 'code' in error && error.code === 'ERR_SCRIPT_EXECUTION_TIMEOUT';

function msSince(before: NodeJS.CpuUsage): number {
  const { user, system } = process.cpuUsage(before);
  return (user + system) / 1_000;
}
