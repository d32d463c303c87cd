import type { Clock } from '../runtime/runtime.ts';

const LOOK_MS = 500;
const MEBIBYTE = 1_048_576;

export interface Limits {
  /** 0: none. */
  readonly maxTasks: number;
  readonly maxMemoryMb: number;
}

/** How many tasks a process has begun and how large it is. */
export interface Wear {
  tasks(): number;
  rssBytes(): number;
}

/** Reports once when the process has reached a limit; returns a function that stops it. */
export function watchLimits(
  { maxTasks, maxMemoryMb }: Limits,
  wear: Wear,
  clock: Clock,
  report: (why: string) => void,
): () => void {
  if (maxTasks === 0 && maxMemoryMb === 0) return () => undefined;
  const reached = (): string | null => {
    if (maxTasks > 0 && wear.tasks() >= maxTasks) return `it has begun ${wear.tasks()} tasks`;
    const megabytes = Math.round(wear.rssBytes() / MEBIBYTE);
    return maxMemoryMb > 0 && megabytes > maxMemoryMb ? `it has grown to ${megabytes} MiB` : null;
  };
  let cancel = (): void => undefined;
  const look = (): void => {
    const why = reached();
    if (why === null) cancel = clock.timer(LOOK_MS, look);
    else report(why);
  };
  cancel = clock.timer(LOOK_MS, look);
  return () => cancel();
}
