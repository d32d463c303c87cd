/** Where an outbox lives; broker, ledger and results as well unless they are elsewhere. */
export interface OutboxTarget {
  /** The row of `adapters/dialects.ts` that its URL belongs to. */
  readonly kind: string;
  readonly url: string;
  /** Of an embedded database, which one process at a time holds. Left out: it is on a server. */
  readonly folder?: string;
  /** Where its tables are. Left out: where `search_path` finds them. */
  readonly schema?: string;
}
