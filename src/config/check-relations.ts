import { outlastError } from '../errors/error.ts';
import type { Messaging } from './messaging.ts';
import type { ResolvedRelayOptions } from './relay-options.ts';
import type { ResolvedWorkerOptions } from './worker-options.ts';

/** What `checkRelations` requires, for the reference page. */
export const RELATION_OF_STAGES =
  '`worker.dedupWindow` is at least three times `relay.staleTimeoutSeconds`: a late copy must find its task remembered.';

/**
 * Relations between two stages, for a process that knows both. A row that two relays publish may reach a
 * worker one stale timeout late, and twice if the second is slow too: a task forgotten before then
 * would run again.
 */
export function checkRelations(relay: ResolvedRelayOptions, worker: ResolvedWorkerOptions): void {
  const { staleTimeoutMs } = relay;
  const { dedupWindowMs } = worker;
  const neededSeconds = (3 * staleTimeoutMs) / 1_000;
  if (dedupWindowMs >= 3 * staleTimeoutMs) return;
  throw outlastError('ERR_OPTIONS_CONFLICT', {
    message: `a \`worker.dedupWindow\` of ${dedupWindowMs} ms forgets tasks before three times \`relay.staleTimeoutSeconds\` (${staleTimeoutMs} ms) are over`,
    hint: `Raise \`worker.dedupWindow\` to '${neededSeconds}s', or lower the stale timeout.`,
    fields: { options: ['worker.dedupWindow', 'relay.staleTimeoutSeconds'] },
  });
}

/**
 * Legal, but seldom meant: Celery's tools reach workers through a broker, and waiters are notified that their task has begun
 * through the ledger's Redis or by RabbitMQ.
 */
export function fleetWarnings(
  { celeryEvents, trackStarted }: ResolvedWorkerOptions,
  { broker, ledger }: Pick<Messaging, 'broker' | 'ledger'>,
): readonly string[] {
  const warnings: string[] = [];
  if (celeryEvents === 'on' && broker === null)
    warnings.push('`worker.celeryEvents` is on, and there is no `broker` to send them to');
  if (trackStarted === 'on' && ledger.kind === 'database' && broker?.kind !== 'rabbitmq')
    warnings.push(
      '`worker.trackStarted` is on, and there is neither Redis nor RabbitMQ to send it',
    );
  return warnings;
}
