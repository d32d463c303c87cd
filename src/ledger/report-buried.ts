import type { EventSink } from '../telemetry/events.ts';
import type { BuryItem } from './ledger.ts';

/** Emits that messages which never became a run are dead letters now. Runs are reported by their worker. */
export function reportBuried(items: readonly BuryItem[], emit: EventSink): void {
  for (const item of items) {
    if (item.kind !== 'message') continue;
    const { id, name, queue } = item.envelope;
    const { type, message } = item.error;
    const error = { type, message };
    emit('task:dead-lettered', { id, name, queue, where: 'worker', reason: item.reason, error });
  }
}
