/** A duration for people. */
export function formatMs(ms: number): string {
  if (ms < 1_000) return `${Math.max(0, Math.round(ms))} ms`;
  if (ms < 60_000) return `${(ms / 1_000).toFixed(1)} s`;
  if (ms < 3_600_000) return `${Math.round(ms / 60_000)} min`;
  return `${(ms / 3_600_000).toFixed(1)} h`;
}

/** The time of day of a station's instant. */
export function formatClock(at: string): string {
  return new Date(at).toLocaleTimeString(undefined, { hour12: false });
}

/** The clock of a coming station. */
export function formatDue(dueAt: number, now: number): string {
  const leftMs = dueAt - now;
  return leftMs <= 0 ? 'due now' : `in ${Math.ceil(leftMs / 1_000)} s`;
}

/** The clock of a running station. */
export function formatSince(since: number, now: number): string {
  return `for ${Math.max(0, Math.floor((now - since) / 1_000))} s`;
}

/** `1 receipt`, `2 receipts`. */
export function plural(count: number, word: string): string {
  return `${count} ${word}${count === 1 ? '' : 's'}`;
}
