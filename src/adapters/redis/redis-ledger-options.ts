import type { FaultPoint } from '../../runtime/runtime.ts';

/** How a ledger in Redis is used. */
export interface RedisLedgerOptions {
  /**
   * Messages without a record are begun even when memory is full. For a broker on the same server: there, beginning
   * messages is the only way to free their memory.
   */
  readonly beginsWhenFull: boolean;
  /**
   * Outcomes are also written in Celery's format, for Python's AsyncResult, and kept for this many milliseconds; results
   * are stored only there. 0: not written. Not on a cluster, which Celery does not support.
   */
  readonly celeryResultMs: number;
  /** The name under which this process's broker holds elements on this same server. Missing: the broker is elsewhere. */
  readonly consumer?: string;
  /** The broker's most urgent priority is 0. Missing: 9. */
  readonly isZeroFirst?: boolean;
  readonly faultPoint?: FaultPoint;
}
