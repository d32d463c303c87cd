/**
 * Resolves when everything that can go on without waiting for the outside world has done so: every promise that could
 * settle has settled. What was asked for meanwhile can then travel together.
 */
export function endOfTick(): Promise<void> {
  return new Promise(resolve => process.nextTick(resolve));
}

/** Resolves in the next turn of the event loop: what was written before is on its way. */
export function nextTurn(): Promise<void> {
  return new Promise(resolve => setImmediate(resolve));
}
