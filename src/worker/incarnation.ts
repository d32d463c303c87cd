import type { RunDeps } from './run/run.ts';

/**
 * A worker as the ledger knows it, under one lease.
 *
 *   open ──no heartbeat was answered for almost a lease──► fenced: handlers are aborted, nothing is begun
 *    │ ▲                                                     │
 *    │ └──────────────a heartbeat was answered───────────────┤
 *    ▼                                                       ▼
 *   closed: the ledger has given its tasks to others, or it has left. The worker opens another one.
 */
export interface Incarnation {
  readonly id: string;
  state: 'open' | 'fenced' | 'closed';
  /** What its runs share. Their settling steps belong to the incarnation and end with it. */
  readonly runDeps: RunDeps;
}

/** The state before the first incarnation was opened. */
export function noIncarnation(runDeps: RunDeps): Incarnation {
  return { id: '', state: 'closed', runDeps };
}
