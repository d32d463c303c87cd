import type { Refused } from '../task/envelope.ts';

/** Names kept in a message: it shows which workers to look at, not all there ever were. */
export const MOST_REFUSERS = 10;
const MOST_NAME_CHARS = 200;

/** Any sender can write this header: a value in another format is ignored. */
export function refusedOf(text: string | undefined): Refused | undefined {
  if (text === undefined) return undefined;
  try {
    const { times, waitedMs, by } = JSON.parse(text) as Partial<Record<keyof Refused, unknown>>;
    if (!isCount(times) || !isCount(waitedMs) || !Array.isArray(by)) return undefined;
    const names = by.filter(
      (name): name is string => typeof name === 'string' && name.length <= MOST_NAME_CHARS,
    );
    return { times, waitedMs, by: names.slice(0, MOST_REFUSERS) };
  } catch {
    return undefined;
  }
}

const isCount = (value: unknown): value is number =>
  Number.isSafeInteger(value) && (value as number) >= 0;
