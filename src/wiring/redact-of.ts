import type { ResolvedConfig } from '../config/config.ts';
import { makeRedact, type Redact } from '../task/redact.ts';
import type { EventSink } from '../telemetry/events.ts';
import type { Logger } from '../telemetry/logger.ts';

/** The redactor of a configuration, whose failures are logged and told; null where there is none. */
export function redactOf(
  { redact }: Pick<ResolvedConfig, 'redact'>,
  { log, emit }: { readonly log: Logger; readonly emit: EventSink },
): Redact | null {
  if (redact === null) return null;
  return makeRedact(redact, (name, error) => {
    log.error({ task: name, error }, 'the redactor failed; the arguments are hidden');
    emit('redaction:failed', { name, error });
  });
}
