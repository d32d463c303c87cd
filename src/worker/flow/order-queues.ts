/** Queue names in a random order in which heavier ones tend to come first; light ones still get their turn. */
export function orderQueues(
  queues: Readonly<Record<string, number>>,
  random: () => number,
): readonly string[] {
  const names = Object.entries(queues);
  if (names.length === 1) return names.map(([name]) => name);
  // The smallest of exponentially distributed draws falls on a name in proportion to its weight.
  const drawn = names.map(([name, weight]) => ({ name, draw: -Math.log(1 - random()) / weight }));
  return drawn.toSorted((a, b) => a.draw - b.draw).map(({ name }) => name);
}
