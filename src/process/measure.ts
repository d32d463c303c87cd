import type { Context } from '../context/context.ts';
import type { ChildMetrics } from '../metrics/children.ts';
import type { OpenMetrics } from '../metrics/open-metrics.ts';
import type { Registry } from '../metrics/registry.ts';
import type { MetricsPage } from './health/health-server.ts';

export interface MeasureOptions {
  /** `relay`, `worker`, … */
  readonly process: string;
  /** The figures may be asked for; false: they are only exported. */
  readonly isServed: boolean;
  readonly gauges?: (registry: Registry) => void;
  readonly children?: ChildMetrics;
  /** What the ledger has counted is among the figures. */
  readonly hasLedger?: true;
}

export interface Measured extends MetricsPage {
  readonly registry: Registry;
}

/** Counts what happens in this process as long as `fn` runs; nothing is loaded where the figures are not wanted. */
export async function withMetrics<T>(
  context: Context,
  options: MeasureOptions,
  fn: (measured: Measured | null) => Promise<T>,
): Promise<T> {
  const { metrics: settings } = context.config;
  const { process, isServed, gauges, children, hasLedger } = options;
  if (!isServed && settings.dogstatsd === null && !settings.opentelemetry) return await fn(null);
  const { openMetrics } = await import('../metrics/open-metrics.ts');
  const { prometheusText } = await import('../metrics/prometheus.ts');
  const { events } = context;
  const setPool = poolGauge(context);
  const open: OpenMetrics = await openMetrics({
    events,
    settings,
    process,
    gauges: registry => {
      gauges?.(registry);
      setPool(registry);
    },
  });
  const { registry } = open;
  const ended = new AbortController();
  const sampling = hasLedger ? sampleStore(context, registry, ended.signal) : null;
  const all = () => children?.with(registry.snapshot()) ?? registry.snapshot();
  try {
    return await fn({
      registry,
      text: () => prometheusText(all()),
      isForAnyone: settings.isReadableFromAnywhere,
    });
  } finally {
    ended.abort();
    await sampling;
    await open.close();
  }
}

/** Of the database of this process, once it is open. */
function poolGauge(context: Context): (registry: Registry) => void {
  let db: { readonly waiting?: number } | null = null;
  // One that cannot be opened is reported by what needs it, and asked for again at the next reading.
  const open = (): void =>
    void context.stores().then(
      stores => (db = stores.db),
      () => undefined,
    );
  open();
  return registry => {
    if (db === null) open();
    else if (db.waiting !== undefined) registry.set('outlast_pool_waits', [], db.waiting);
  };
}

async function sampleStore(
  context: Context,
  registry: Registry,
  signal: AbortSignal,
): Promise<void> {
  const { sampleLedger } = await import('./sample-ledger.ts');
  const { ledgerReads } = await context.stores();
  await sampleLedger(ledgerReads, registry, context.runtime, signal);
}
