/**
 * Resolves when everything that can go on without waiting for the outside world has done so: every promise that could
 * settle has settled. Requests made meanwhile can then be sent together.
 */
export function endOfTick(): Promise<void> {
  return new Promise(resolve => process.nextTick(resolve));
}

/** Resolves in the next turn of the event loop: earlier writes are on their way. */
export function nextTurn(): Promise<void> {
  return new Promise(resolve => setImmediate(resolve));
}
