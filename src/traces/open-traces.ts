import type { ResolvedConfig } from '../config/config.ts';
import type { Traces } from '../telemetry/traces.ts';
import { OpenTelemetryTraces } from './opentelemetry.ts';
import { loadApi } from './span-context.ts';

/** Null: the configuration asks for no traces. */
export function openTraces({
  traces,
  broker,
  keyring,
}: Pick<ResolvedConfig, 'traces' | 'broker' | 'keyring'>): Traces | null {
  if (!traces.opentelemetry) return null;
  return new OpenTelemetryTraces(loadApi(), {
    system: broker?.kind ?? 'postgresql',
    isTrusted: queue => !keyring.takesUnsigned(queue),
  });
}
