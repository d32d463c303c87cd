/** Where messages go: in one statement into the ledger (move), or to a broker (claim, publish, settle, take, ack). */
export const TOPOLOGIES = ['one-database', 'broker-apart'] as const;
export type Topology = (typeof TOPOLOGIES)[number];

/** The two take turns, so that a seed alone says which one it is. */
export function topologyOf(seed: number): Topology {
  return seed % 2 === 0 ? 'one-database' : 'broker-apart';
}
