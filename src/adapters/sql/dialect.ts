import type { AdmissionStore } from '../../admission/admission-store.ts';
import type { Broker } from '../../broker/broker.ts';
import type { OutboxTarget } from '../../config/database-target.ts';
import type { IdempotencyStore } from '../../idempotency/idempotency-store.ts';
import type { CheckpointStore } from '../../ledger/checkpoint-store.ts';
import type { ControlStore } from '../../ledger/control-store.ts';
import type { Evacuation } from '../../ledger/evacuation.ts';
import type { GenerationStore } from '../../ledger/generation-store.ts';
import type { LedgerReads } from '../../ledger/ledger-reads.ts';
import type { CeleryChords, Ledger } from '../../ledger/ledger.ts';
import type { TierMemory } from '../../ledger/tier-store.ts';
import type { OutboxReads } from '../../outbox/outbox-reads.ts';
import type { OutboxStore } from '../../outbox/outbox-store.ts';
import type { OutboxWriter } from '../../outbox/outbox-writer.ts';
import type { Comparison, Executor, TransactionAdapter } from '../../outbox/transaction-adapter.ts';
import type { ScheduleStore } from '../../schedule/schedule-store.ts';
import type { FenceRows } from '../../recovery/fence-rows.ts';
import type { ResultStore } from '../../result/result-store.ts';
import type { FaultPoint } from '../../runtime/runtime.ts';
import type { Envelope } from '../../task/envelope.ts';
import type { Checkup } from '../../telemetry/checkup.ts';
import type { Fences } from '../../worker/effects/door.ts';
import type { SqlDatabase } from './sql-database.ts';

/** A kind of SQL database, as the configuration knows it: its row in `adapters/dialects.ts`. */
export interface DialectRow {
  /** As people call it. */
  readonly title: string;
  /** What URLs of it begin with. */
  readonly schemes: readonly string[];
  /** What a URL names. `named-server`: one without the name of a database is refused. */
  readonly location: 'server' | 'named-server' | 'folder';
  /** Whether it can be broker and ledger as well; if not, it is an outbox beside others. */
  readonly canBeLedger: boolean;
  /** What transaction adapters for it say they speak. */
  readonly language: string;
  /** Whether tables may be in a schema that `search_path` does not name. */
  readonly hasSchemas?: true;
  /** Nothing of a dialect is loaded before a configuration with such a URL needs it. */
  readonly load: () => Promise<{ readonly dialect: Dialect }>;
}

/**
 * Where `send` writes a task. `ledger`: no broker stands between, and the ledger is in the same database. What needs a relay is
 * a row of the outbox all the same: tasks with an ordering key, or under a rate.
 */
export type SendTarget = 'outbox' | 'ledger';

export interface WriterOptions {
  /** @default 'outbox' */
  readonly target?: SendTarget;
  /** Called when tasks for the ledger become rows of the outbox, because relays take that to a broker. */
  readonly onRelayed?: () => void;
}

/** All that the rest of Outlast asks of a kind of SQL database. */
export interface Dialect {
  /** Connects and does nothing else; tables may be missing. */
  open(target: OutboxTarget, options: OpenOptions): Promise<OutboxDatabase>;
  /** The SQL of all migrations, for people who apply it themselves. */
  printMigrations(): string;
  /** The SQL that drops what the migrations made. */
  printUninstall(): string;
  /** Writes tasks in transactions of the user. */
  writer<Tx>(executor: Executor<Tx>, options?: WriterOptions): OutboxWriter<Tx>;
  /** Fences and steps in transactions of the user. `isLedgerHere`: the row of the task is its fence. */
  fences<Tx>(adapter: TransactionAdapter<Tx>, isLedgerHere: boolean): Fences<Tx>;
  /** The same with all tables in a schema. Left out: it has none (`hasSchemas`). */
  inSchema?(schema: string): Dialect;
}

export interface OpenOptions {
  readonly embedded: EmbeddedAccess;
  /** Connections of the pool, where there is one. */
  readonly poolSize: number;
  /** A statement without an answer for this long has failed. */
  readonly queryTimeoutMs: number;
}

/**
 * How a process treats an embedded database, which one process at a time holds.
 *
 * - `create`: opens it, or joins the process that serves it; makes it where there is none.
 * - `existing`: the same, but makes none.
 * - `join`: only through the process that serves it: a worker must not keep the next holder out.
 * - `own`: opens it and serves it to others; makes it where there is none.
 */
export type EmbeddedAccess = 'create' | 'existing' | 'join' | 'own';

/** A database that is connected: an outbox, and the ports that need no ledger. Its rows are claimed, published and settled. */
export interface OutboxDatabase {
  /** For transactions of our own in which statements of the user are run. */
  readonly db: SqlDatabase;
  readonly outbox: OutboxStore;
  readonly reads: OutboxReads;
  readonly results: ResultStore;
  /** Remembers how often a ledger elsewhere has lost its memory. */
  readonly generations: GenerationStore;
  /** Of tasks whose effects are here. */
  readonly fences: FenceRows;
  /** Large ones. */
  readonly checkpoints: CheckpointStore;
  /** Schedules whose tasks are written to this outbox, or into the ledger beside it. */
  schedules(target: SendTarget, faultPoint?: FaultPoint): ScheduleStore;
  /**
   * Deletes what test kits wrote here under ids that begin with `prefix`, if it is at least that old. Left out: no kit may write
   * here.
   */
  forgetTests?(prefix: string, olderThanMs: number): Promise<void>;
  /** Null: a database that keeps no memory of tiers. */
  readonly tiers: TierMemory | null;
  /** Null: an outbox only. */
  readonly ledger: ((options: LedgerInDatabaseOptions) => LedgerInDatabase) | null;
  /** What a doctor looks at; tables may be missing. */
  readonly checkup: Checkup;
  /** Makes or updates the tables, while others use them. */
  migrate(options?: MigrateOptions): Promise<MigrateReport>;
  /** Drops what the migrations made, unless tasks or processes are left. */
  uninstall(options?: MigrateOptions): Promise<UninstallReport>;
  /** Refuses tables and settings that this version cannot work with. */
  checkSchema(): Promise<unknown>;
  /** Whether a transaction of the user is in this database. */
  compare<Tx>(tx: Tx, adapter: Pick<TransactionAdapter<Tx>, 'execute'>): Promise<Comparison>;
  close(): Promise<void>;
}

export interface LedgerInDatabaseOptions {
  /** No broker stands between: a row of the outbox becomes a record by one statement. */
  readonly movesIntoLedger: boolean;
  readonly faultPoint?: FaultPoint;
  /** For chords whose size only Celery knows. Left out: their parts do not run. */
  readonly celeryChords?: CeleryChords | undefined;
}

/** The ports of a database that is the ledger. */
export interface LedgerInDatabase {
  readonly outbox: OutboxStore;
  /** For where there is no other one. */
  readonly broker: Broker;
  readonly ledger: Ledger;
  readonly control: ControlStore;
  readonly idempotency: IdempotencyStore;
  readonly admission: AdmissionStore;
  readonly reads: LedgerReads;
  readonly evacuation: Evacuation;
  /** Writes down that the chords of these messages are open. */
  noteChords(messages: readonly Envelope[]): Promise<void>;
}

export interface MigrateOptions {
  /** Called with what a migration does or waits for, from its first second on. */
  readonly onProgress?: (line: string) => void;
}

export interface MigrateReport {
  /** Names of the migrations applied by this call, in order. */
  readonly applied: readonly string[];
  readonly version: number;
}

export interface UninstallReport {
  /** Names of the tables that were dropped; none: there were none. */
  readonly dropped: readonly string[];
}
