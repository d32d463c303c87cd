import type { ResolvedConfig } from '../config/config.ts';
import type { OutboxTarget } from '../config/database-url.ts';
import { Housekeeper } from '../recovery/housekeeper.ts';
import type { KeptFences } from '../recovery/keep-fences.ts';
import { Receipts, type ReceiptSources } from '../relay/receipts.ts';
import { sleep } from '../runtime/clock.ts';
import type { Runtime } from '../runtime/runtime.ts';
import { openOutboxApart } from './stores.ts';

const EVERY_MS = 60_000;

export interface CleaningDeps {
  readonly runtime: Runtime;
  /** Whom fences in these databases are asked about. */
  readonly asking: Omit<KeptFences, 'rows'>;
  /** Whom published rows there are asked about. */
  readonly receipts: ReceiptSources;
}

/**
 * Forgets what has had its time in outboxes that live in databases of their own. It runs beside the resurrector and
 * connects anew each time: a database that is away or has no tables yet is told about and holds up nothing.
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
  const { db, outbox, fences: rows } = await openOutboxApart(target);
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
    await db.close();
  }
}
