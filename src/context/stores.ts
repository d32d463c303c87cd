import { composeReads } from '../admin/compose-reads.ts';
import type { ReadModel } from '../admin/read-model.ts';
import type { LedgerInDatabaseOptions, OutboxDatabase } from '../adapters/sql/dialect.ts';
import type { SqlDatabase } from '../adapters/sql/sql-database.ts';
import type { RedisLedgerStores } from '../adapters/redis/open-redis-ledger.ts';
import type { AdmissionStore } from '../admission/admission-store.ts';
import { withChordRegistration, type Renew } from '../broker/destination-guard.ts';
import type { Broker } from '../broker/broker.ts';
import type { IdempotencyStore } from '../idempotency/idempotency-store.ts';
import type { CheckpointStore } from '../ledger/checkpoint-store.ts';
import type { ControlStore } from '../ledger/control-store.ts';
import type { Evacuation } from '../ledger/evacuation.ts';
import type { LedgerReads } from '../ledger/ledger-reads.ts';
import type { Ledger } from '../ledger/ledger.ts';
import type { TierMemory } from '../ledger/tier-store.ts';
import type { OutboxReads } from '../outbox/outbox-reads.ts';
import type { OutboxStore } from '../outbox/outbox-store.ts';
import type { FenceRows } from '../recovery/fence-rows.ts';
import type { ResultStore } from '../result/result-store.ts';
import { resultsOf } from '../result/result-handle.ts';
import type { ScheduleStore } from '../schedule/schedule-store.ts';
import type { FaultPoint } from '../runtime/runtime.ts';
import type { Envelope } from '../task/envelope.ts';
import { readOptions } from '../task/read-options.ts';
import { ledgerIn } from './openers.ts';

/** Every port, on the stores the configuration names. */
export interface Stores {
  readonly db: SqlDatabase;
  readonly outbox: OutboxStore;
  readonly broker: Broker;
  readonly ledger: Ledger;
  /** What operators tell workers; where the ledger is. */
  readonly control: ControlStore;
  /** Large ones. */
  readonly checkpoints: CheckpointStore;
  readonly idempotency: IdempotencyStore;
  readonly results: ResultStore;
  /** Beside the ledger. */
  readonly admission: AdmissionStore;
  readonly outboxReads: OutboxReads;
  readonly ledgerReads: LedgerReads;
  /** Fences and steps in the database; where it is the ledger, those of the time when it was not. */
  readonly fences: FenceRows;
  /** In the database of the outbox. */
  readonly schedules: ScheduleStore;
  /** Both in one picture. */
  readonly reads: ReadModel;
  /** The way out of the ledger. */
  readonly evacuation: Evacuation;
  /** Null: a database that keeps no memory of tiers. */
  readonly tiers: TierMemory | null;
}

/** What a tier consists of, opened. Null: that part is in the database; a ledger elsewhere has its broker elsewhere, too. */
export type TierParts = {
  readonly database: OutboxDatabase;
  /** Signs what has waited anew, and gives a letter the id it came with. Left out: there is no key and no broker. */
  readonly renew?: Renew | undefined;
  /** Whether a chord is open under its group id when its header is sent. Left out: every one. */
  readonly isNoted?: ((message: Envelope) => boolean) | undefined;
  readonly faultPoint: FaultPoint;
  /** For chords whose size only Celery knows. */
  readonly celeryChords?: LedgerInDatabaseOptions['celeryChords'];
} & (
  | { readonly broker: Broker | null; readonly ledger: null }
  | { readonly broker: Broker; readonly ledger: RedisLedgerStores }
);

/** The ports of a tier. Nothing is opened here, and nothing asked. */
export function storesOf(parts: TierParts): Stores {
  if (parts.ledger === null) return storesInDatabase(parts);
  const { database, broker, ledger, renew } = parts;
  const { db, outbox, reads: outboxReads, results, fences, checkpoints, tiers } = database;
  return {
    db,
    outbox,
    broker: withChordRegistration(broker, ledger.announce, renew),
    ledger: ledger.ledger,
    control: ledger.control,
    checkpoints,
    idempotency: ledger.idempotency,
    results: resultsOf(ledger.results, results),
    admission: ledger.admission,
    outboxReads,
    ledgerReads: ledger.reads,
    fences,
    schedules: database.schedules('outbox', parts.faultPoint),
    reads: composeReads(outboxReads, ledger.reads, ledger.control),
    evacuation: ledger.evacuation,
    tiers,
  };
}

function storesInDatabase(parts: TierParts): Stores {
  const { database, broker, renew, faultPoint, celeryChords, isNoted = () => true } = parts;
  const { db, reads: outboxReads, results, fences, checkpoints, tiers } = database;
  // A separate broker is published to; only where there is none a row becomes a record by one statement.
  const inside = ledgerIn(database, {
    movesIntoLedger: broker === null,
    faultPoint,
    celeryChords,
  });
  const { reads: ledgerReads, control } = inside;
  return {
    db,
    outbox: inside.outbox,
    broker: withChordRegistration(
      broker ?? inside.broker,
      async messages => {
        await inside.noteChords(messages.filter(isNoted));
        await announce(messages, celeryChords);
      },
      renew,
      celeryChords?.store,
    ),
    ledger: inside.ledger,
    control,
    checkpoints,
    idempotency: inside.idempotency,
    results,
    admission: inside.admission,
    outboxReads,
    ledgerReads,
    fences,
    schedules: database.schedules(broker === null ? 'ledger' : 'outbox', faultPoint),
    reads: composeReads(outboxReads, ledgerReads, control),
    evacuation: inside.evacuation,
    tiers,
  };
}

async function announce(
  messages: readonly Envelope[],
  celeryChords: TierParts['celeryChords'],
): Promise<void> {
  const chords = messages.flatMap(message => readOptions(message).announced ?? []);
  if (chords.length > 0) await celeryChords?.announce(chords);
}

/** The same stores with another outbox in front of the ledger. */
export function withOutbox(stores: Stores, { outbox, reads, fences }: OutboxDatabase): Stores {
  return {
    ...stores,
    outbox,
    fences,
    outboxReads: reads,
    reads: composeReads(reads, stores.ledgerReads, stores.control),
  };
}
