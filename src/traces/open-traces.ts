import type { ResolvedConfig } from '../config/config.ts';
import type { Logger } from '../telemetry/logger.ts';
import type { Traces } from '../telemetry/traces.ts';
import { BothTraces } from './both-traces.ts';
import { guardTraces } from './guarded-traces.ts';
import { OpenTelemetryTraces } from './opentelemetry.ts';
import { SentryTraces } from './sentry.ts';
import { loadApi } from './span-context.ts';

/** Null: the configuration asks for no traces. What throws there costs no work. */
export function openTraces(
  { traces, broker, keyring }: Pick<ResolvedConfig, 'traces' | 'broker' | 'keyring'>,
  log: Logger,
): Traces | null {
  const { opentelemetry, sentry, capture } = traces;
  const reports = sentry === null ? null : guardTraces(new SentryTraces({ sentry, capture }), log);
  if (!opentelemetry) return reports;
  const made = new OpenTelemetryTraces(loadApi(), {
    system: broker?.kind ?? 'postgresql',
    isTrusted: queue => !keyring.takesUnsigned(queue),
  });
  const spans = guardTraces(made, log);
  return reports === null ? spans : new BothTraces(spans, reports);
}
