import { outlastError } from '../errors/error.ts';
import type { Messaging } from './messaging.ts';
import type { ResolvedRelayOptions } from './relay-options.ts';
import type { ResolvedWorkerOptions } from './worker-options.ts';

/**
 * Relations between two stages, for whoever knows both. A row that two relays publish may reach a
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
 * What is legal, but seldom meant: tools of Celery meet workers at a broker, and those who wait for a task are told that it
 * has begun in the ledger's Redis or by RabbitMQ.
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
      '`worker.trackStarted` is on, and neither Redis nor RabbitMQ is there to tell it',
    );
  return warnings;
}
