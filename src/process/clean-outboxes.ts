import type { ResolvedConfig } from '../config/config.ts';
import type { OutboxTarget } from '../config/database-target.ts';
import { Housekeeper } from '../recovery/housekeeper.ts';
import type { KeptFences } from '../recovery/keep-fences.ts';
import { type ReceiptSources, Receipts } from '../relay/receipts.ts';
import { type Runtime, sleep } from '../runtime/runtime.ts';
import { openOutboxDatabase } from '../context/openers.ts';

const EVERY_MS = 60_000;

export interface CleaningDeps {
  readonly runtime: Runtime;
  /** The sources to ask about fences in these databases. */
  readonly asking: Omit<KeptFences, 'rows'>;
  /** The sources to ask about published rows there. */
  readonly receipts: ReceiptSources;
}

/**
 * Deletes expired rows in outboxes that live in separate databases. It runs next to the resurrector and
 * reconnects each time: a database that is away or has no tables yet is logged and delays nothing.
 */
export async function cleanOutboxes(
  { outboxes, retention }: Pick<ResolvedConfig, 'outboxes' | 'retention'>,
  deps: CleaningDeps,
  signal: AbortSignal,
): Promise<void> {
  const { runtime } = deps;
  const named = Object.entries(outboxes);
  while (named.length > 0 && !signal.aborted) {
    for (const [name, target] of named) {
      await cleanOutbox(target, retention.deadLetters, deps).catch((error: unknown) =>
        runtime.log.warn({ error, outbox: name }, 'an outbox cannot be cleaned up now'),
      );
    }
    await sleep(runtime.clock, EVERY_MS, signal);
  }
}

async function cleanOutbox(
  target: OutboxTarget,
  deadLetterAge: ResolvedConfig['retention']['deadLetters'],
  { runtime, asking, receipts }: CleaningDeps,
): Promise<void> {
  const database = await openOutboxDatabase(target);
  const { outbox, fences: rows } = database;
  const fences = { ...asking, rows };
  try {
    const asked = { ...receipts, store: outbox.receipts, runtime, onFree: () => undefined };
    await new Receipts(asked).lookAtAll();
    await new Housekeeper({
      ledger: null,
      keys: null,
      outbox,
      fences,
      deadLetterAge,
      runtime,
    }).look();
  } finally {
    await database.close();
  }
}
