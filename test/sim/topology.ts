/** Where messages go: in one statement into the ledger (move), or to a broker (claim, publish, settle, take, ack). */
export const TOPOLOGIES = ['one-database', 'separate-broker'] as const;
export type Topology = (typeof TOPOLOGIES)[number];

/** The two alternate, so that the seed determines the topology. */
export function topologyOf(seed: number): Topology {
  return seed % 2 === 0 ? 'one-database' : 'separate-broker';
}
