import { Admission } from '../admission/admission.ts';
import { LimitBook } from '../admission/limits.ts';
import type { ResolvedConfig } from '../config/config.ts';
import { relayPreflight } from '../context/check-redis.ts';
import type { Context } from '../context/context.ts';
import { spareOutbox } from '../context/openers.ts';
import type { Stores } from '../context/stores.ts';
import type { ReceiptSources } from '../relay/receipts.ts';
import { Relay } from '../relay/relay.ts';
import { relayGauges } from '../metrics/gauges.ts';
import { withMetrics } from './measure.ts';
import { besideScheduler } from './scheduler-service.ts';
import { withHealth } from './health/relay-health.ts';

type RelayVerbs = Pick<Relay, 'run' | 'pass' | 'drain'>;

/** A relay for the outbox of a context. */
export function makeRelay(context: Context): RelayVerbs {
  const { runtime } = context;
  const { relay: settings } = context.config;
  return {
    run: async signal => {
      const relay = await openRelay(context);
      const measured = {
        process: 'relay',
        isServed: settings.healthPort !== null,
        gauges: relayGauges(() => relay.status),
      };
      const run = (): Promise<void> => relay.run(signal);
      // Schedules are in the database of the configuration; a named outbox has none.
      const beside = (): Promise<void> =>
        context.outbox === null ? besideScheduler(context, run) : run();
      await withMetrics(context, measured, metrics =>
        withHealth(relay, { ...settings, metrics }, runtime, beside),
      );
    },
    pass: async signal => await (await openRelay(context)).pass(signal),
    drain: async signal => await (await openRelay(context)).drain(signal),
  };
}

async function openRelay(context: Context): Promise<Relay> {
  const { config, runtime } = context;
  await relayPreflight(context);
  const stores = await context.stores();
  const { outbox, outboxReads: reads } = await context.adminStores();
  const { broker } = stores;
  const receipts = receiptSources(stores, config);
  const book = new LimitBook(config.admission);
  const admission = new Admission({ store: stores.admission, book, runtime });
  const settings = config.relay;
  const openSpare = spareOutbox(context.outbox?.target ?? config.database);
  const deps = { broker, admission, receipts, runtime, settings, openSpare };
  return new Relay({ outbox, reads, letters: stores.ledgerReads, ...deps });
}

/** The sources that relays and resurrectors ask about published tasks. */
export function receiptSources(
  { ledgerReads: ledger, results }: Stores,
  { relay, worker }: Pick<ResolvedConfig, 'relay' | 'worker'>,
): ReceiptSources {
  return { ledger, results, timeoutMs: relay.receiptTimeoutMs, dedupMs: worker.dedupWindowMs };
}
