import type { SqlDatabase } from '../adapters/postgres/sql-database.ts';
import type { CheckpointStore } from '../ledger/checkpoint-store.ts';
import type { GenerationStore } from '../ledger/generation-store.ts';
import type { OutboxReads } from '../outbox/outbox-reads.ts';
import type { OutboxStore } from '../outbox/outbox-store.ts';
import type { FenceRows } from '../recovery/fence-rows.ts';
import type { ResultStore } from '../result/result-store.ts';
import type { Dialect } from './writer-of.ts';

/** An outbox apart from the ledger: its rows are claimed, published and settled. */
export interface OutboxApart {
  /** For transactions of our own. */
  readonly db: SqlDatabase;
  readonly dialect: Dialect;
  readonly outbox: OutboxStore;
  readonly reads: OutboxReads;
  readonly results: ResultStore;
  /** Remembers how often a ledger elsewhere has lost its memory. */
  readonly generations: GenerationStore;
  /** Of tasks whose effects are here. */
  readonly fences: FenceRows;
  /** Large ones. */
  readonly checkpoints: CheckpointStore;
}
