import { outlastError } from '../errors/error.ts';
import type { ResolvedRelayOptions } from './relay-options.ts';
import type { ResolvedWorkerOptions } from './worker-options.ts';

/**
 * Relations between two stages, for whoever knows both.
 * A row that two relays publish may reach a worker one stale timeout late, and a slow relay may do so
 * twice: a task forgotten before then would run a second time.
 */
export function checkRelations(relay: ResolvedRelayOptions, worker: ResolvedWorkerOptions): void {
  const neededMs = 3 * relay.staleTimeoutMs;
  if (worker.dedupWindowMs >= neededMs) return;
  throw outlastError('ERR_OPTIONS_CONFLICT', {
    message: `\`worker.dedupWindow\` (${worker.dedupWindowMs} ms) is under three times \`relay.staleTimeoutSeconds\` (${relay.staleTimeoutMs} ms)`,
    hint: `Raise \`worker.dedupWindow\` to at least '${neededMs / 1_000}s', or lower \`relay.staleTimeoutSeconds\`.`,
    fields: { options: ['worker.dedupWindow', 'relay.staleTimeoutSeconds'] },
  });
}
