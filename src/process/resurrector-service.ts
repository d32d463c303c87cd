import type { Context } from '../context/context.ts';
import { chordQueueOf } from '../context/messaging.ts';
import type { Stores } from '../context/stores.ts';
import type { OutboxStore } from '../outbox/outbox-store.ts';
import { CHORD_PARTS_AT_ONCE, ChordParts } from '../recovery/chord-parts.ts';
import { cleanCheckpoints } from '../recovery/housekeeper.ts';
import { Resurrector, type ResurrectorSettings } from '../recovery/resurrector.ts';
import { Receipts, type ReceiptSources } from '../relay/receipts.ts';
import type { Runtime } from '../runtime/runtime.ts';
import { cleanOutboxes } from './clean-outboxes.ts';
import { destinationsOf } from './join-fleet.ts';
import { withMetrics } from './measure.ts';
import { besideScheduler } from './scheduler-service.ts';
import { receiptSources } from './relay-service.ts';
import { PushWindows } from '../worker/flow/queue-windows.ts';

/** A resurrector that also cleans up outboxes in separate databases. */
export function makeResurrector(context: Context): Pick<Resurrector, 'run'> {
  return {
    run: async signal => {
      const { config, runtime } = context;
      const stores = await context.stores();
      const { ledger, broker, outbox, results, admission, ledgerReads: reads } = stores;
      const settings = resurrectorSettings(context);
      const keys = { store: stores.idempotency, reads };
      const asking = { ledger: reads, dedupMs: config.worker.dedupWindowMs };
      const fences = { ...asking, rows: stores.fences };
      const kept = { outbox, keys, fences, admission };
      const shared = { ...kept, ...destinationsOf(config, runtime.log), runtime, settings };
      const resurrector = new Resurrector({ ledger, broker, results, ...shared });
      const receipts = receiptSources(stores, config);
      const store = await context.checkpoints();
      const ended = new AbortController();
      const either = AbortSignal.any([signal, ended.signal]);
      const cleaning = Promise.all([
        countChordParts(context, stores, either),
        cleanOutboxes(config, { runtime, asking, receipts }, either),
        lookUpReceipts(outbox, receipts, runtime, either),
        cleanCheckpoints({ store, reads, runtime }, either),
      ]);
      try {
        await withMetrics(
          context,
          { process: 'resurrector', isServed: false, hasLedger: true },
          () => besideScheduler(context, () => resurrector.run(signal)),
        );
      } finally {
        ended.abort();
        await cleaning;
      }
    },
  };
}

/** In addition to the relays: if all of them were away, the ledger could forget endings before any of them asked. */
async function lookUpReceipts(
  outbox: OutboxStore,
  sources: ReceiptSources,
  runtime: Runtime,
  signal: AbortSignal,
): Promise<void> {
  if (outbox.move !== null) return;
  const { receipts: store } = outbox;
  await new Receipts({ ...sources, store, runtime, onFree: () => undefined }).run(signal);
}

async function countChordParts(
  { config, runtime, redact }: Context,
  { broker, ledger }: Stores,
  signal: AbortSignal,
): Promise<void> {
  const queue = chordQueueOf(config);
  if (queue === null) return;
  const { keyring } = config;
  const demand = { concurrency: CHORD_PARTS_AT_ONCE, queues: 1, ackOn: 'commit' } as const;
  broker.pushWithin?.(new PushWindows(runtime.clock, demand));
  const shared = { redact, keyring, ...destinationsOf(config, runtime.log) };
  await new ChordParts({ broker, ledger, queue, runtime, ...shared }).run(signal);
}

export function resurrectorSettings({
  config,
  redact,
}: Pick<Context, 'config' | 'redact'>): ResurrectorSettings {
  const { intervalMs, batchSize, afterDelayMs, unknownTaskTimeoutMs } = config.resurrector;
  const { leaseMs, beatMs } = config.worker;
  const { deadLetters: deadLetterAge } = config.retention;
  const kept = { deadLetterAge, redact, keyring: config.keyring, unknownTaskTimeoutMs };
  return { intervalMs, afterDelayMs, chunk: batchSize, leaseMs, beatMs, ...kept };
}
