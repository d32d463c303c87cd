import { burnReport } from '../ledger/burn-rate.ts';
import type { LedgerReads } from '../ledger/ledger-reads.ts';
import { sleep, type Runtime } from '../runtime/runtime.ts';
import type { Registry } from '../metrics/registry.ts';

const EVERY_MS = 30_000;

type Reads = Pick<LedgerReads, 'objectives' | 'totals'>;

/** Reads what the ledger has counted, every 30 s until the signal. While it cannot be read, there are no such series. */
export async function sampleLedger(
  reads: Reads,
  registry: Registry,
  { clock, log }: Pick<Runtime, 'clock' | 'log'>,
  signal: AbortSignal,
): Promise<void> {
  while (!signal.aborted) {
    try {
      await setGauges(reads, registry);
    } catch (error) {
      clear(registry);
      log.warn({ error }, 'the counts of the ledger could not be read');
    }
    await sleep(clock, EVERY_MS, signal);
  }
  clear(registry);
}

async function setGauges(reads: Reads, registry: Registry): Promise<void> {
  const { objectives } = burnReport(await reads.objectives());
  const totals = await reads.totals();
  clear(registry);
  for (const { task, objective, windows } of objectives)
    for (const [window, { burnRate }] of Object.entries(windows))
      if (burnRate !== null)
        registry.set('outlast_slo_burn_rate', [task, objective, window], burnRate);
  for (const { name, queue, counts } of totals)
    for (const [figure, count] of Object.entries(counts))
      registry.set('outlast_totals', [name, queue, figure], count);
}

function clear(registry: Registry): void {
  registry.clear('outlast_slo_burn_rate');
  registry.clear('outlast_totals');
}
