import type { ResolvedConfig } from '../config/config.ts';
import type { OutboxTarget } from '../config/database-target.ts';
import { isEmbedded } from '../config/database-url.ts';
import type { IdempotencyStore } from '../idempotency/idempotency-store.ts';
import type { OutboxStore } from '../outbox/outbox-store.ts';
import type { SpareLink } from '../runtime/hedged-store.ts';
import { ledgerParts } from './messaging.ts';
import { ledgerIn, openDatabase, openLedger, openOutboxDatabase } from './openers.ts';

type Open<S> = (() => Promise<SpareLink<S>>) | null;

/** For a moment of trouble: few connections, and an answer that comes later than a lease lasts is none. */
const SPARE = { embedded: 'existing', poolSize: 2, queryTimeoutMs: 5_000 } as const;

/** A second way to an outbox. Null: an embedded database is in this process, or reached through one that is. */
export function spareOutbox(target: OutboxTarget): Open<OutboxStore> {
  if (isEmbedded(target)) return null;
  return async () => {
    const database = await openOutboxDatabase(target);
    return { store: database.outbox, close: () => database.close() };
  };
}

/** A second way to the keys, which are where the ledger is. */
export function spareIdempotency(
  config: Pick<ResolvedConfig, 'database' | 'broker' | 'ledger' | 'worker'>,
): Open<IdempotencyStore> {
  const { database } = config;
  const parts = ledgerParts(config);
  if (parts !== null)
    return async () => {
      const opened = await openLedger({ ...parts, generations: null, beside: null });
      return { store: opened.idempotency, close: () => opened.close() };
    };
  if (isEmbedded(database)) return null;
  return async () => {
    const opened = await openDatabase(database, SPARE);
    return { store: ledgerIn(opened).idempotency, close: () => opened.close() };
  };
}
