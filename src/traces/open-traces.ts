import type { ResolvedConfig } from '../config/config.ts';
import type { Traces } from '../telemetry/traces.ts';
import { BothTraces } from './both-traces.ts';
import { OpenTelemetryTraces } from './opentelemetry.ts';
import { SentryTraces } from './sentry.ts';
import { loadApi } from './span-context.ts';

/** Null: the configuration asks for no traces. */
export function openTraces({
  traces,
  broker,
  keyring,
}: Pick<ResolvedConfig, 'traces' | 'broker' | 'keyring'>): Traces | null {
  const { opentelemetry, sentry, capture } = traces;
  const reports = sentry === null ? null : new SentryTraces({ sentry, capture });
  if (!opentelemetry) return reports;
  const spans = new OpenTelemetryTraces(loadApi(), {
    system: broker?.kind ?? 'postgresql',
    isTrusted: queue => !keyring.takesUnsigned(queue),
  });
  return reports === null ? spans : new BothTraces(spans, reports);
}
