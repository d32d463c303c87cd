/** Milliseconds for people and metrics: thousandths are more than any clock here is good for. */
export const roundMs = (ms: number): number => Math.round(ms * 1_000) / 1_000;
