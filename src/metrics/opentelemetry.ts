import { outlastError } from '../errors/error.ts';
import { METRIC_NAMES, rowOfMetric, type MetricName } from './catalogue.ts';
import type { Labels, Registry } from './registry.ts';

type Attributes = Record<string, string>;
interface Instrument {
  add?(value: number, attributes: Attributes): void;
  record?(value: number, attributes: Attributes): void;
}
interface Observer {
  observe(value: number, attributes: Attributes): void;
}
type Observe = (observer: Observer) => void;

/** The part of a meter of `@opentelemetry/api` that is used. */
export interface MeterLike {
  createCounter(name: string, options: object): Instrument;
  createHistogram(name: string, options: object): Instrument;
  createObservableGauge(
    name: string,
    options: object,
  ): { addCallback(callback: Observe): void; removeCallback(callback: Observe): void };
}

/** Feeds the instruments of a meter: the SDK of the application decides where they go. */
export function feedMeter(registry: Registry, meter: MeterLike): () => void {
  const instruments = new Map<MetricName, Instrument>();
  const undo: (() => void)[] = [];
  for (const name of METRIC_NAMES) {
    const { kind, sentence: description, buckets } = rowOfMetric(name);
    const shown = otelName(name);
    const unit = name.includes('_seconds') ? 's' : name.includes('_bytes') ? 'By' : '1';
    const advice = buckets === undefined ? {} : { advice: { explicitBucketBoundaries: buckets } };
    const options = { description, unit, ...advice };
    if (kind === 'counter') instruments.set(name, meter.createCounter(shown, options));
    else if (kind === 'histogram') instruments.set(name, meter.createHistogram(shown, options));
    else {
      const gauge = meter.createObservableGauge(shown, options);
      const read: Observe = observer => {
        for (const [labels, value] of registry.snapshot()[name] ?? [])
          if (typeof value === 'number') observer.observe(value, attributesOf(name, labels));
      };
      gauge.addCallback(read);
      undo.push(() => gauge.removeCallback(read));
    }
  }
  undo.push(
    registry.onSample((name, labels, value) => {
      const instrument = instruments.get(name);
      const attributes = attributesOf(name, labels);
      instrument?.add?.(value, attributes);
      instrument?.record?.(value, attributes);
    }),
  );
  return () => undo.forEach(off => off());
}

/** `outlast_messages_failed_total` is `outlast.messages_failed` there: units and `total` belong to Prometheus. */
const otelName = (name: string): string =>
  name.replace('outlast_', 'outlast.').replace(/_(?:total|seconds|bytes)$/, '');

function attributesOf(name: MetricName, values: Labels): Attributes {
  const { labels } = rowOfMetric(name);
  return Object.fromEntries(labels.map((label, at) => [`outlast.${label}`, values[at] ?? '']));
}

/** The global meter, of the provider that the application has registered. */
export async function globalMeter(): Promise<MeterLike> {
  try {
    const { metrics } = await import('@opentelemetry/api');
    return metrics.getMeter('outlast');
  } catch (cause) {
    throw outlastError('ERR_DRIVER_MISSING', {
      message: '`metrics.opentelemetry` is on, and @opentelemetry/api cannot be loaded',
      hint: 'npm i @opentelemetry/api, and an SDK that is started before Outlast.',
      fields: { install: 'npm i @opentelemetry/api' },
      cause,
    });
  }
}
