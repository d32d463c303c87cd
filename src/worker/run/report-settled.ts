import type { BegunTask } from '../../ledger/ledger.ts';
import type { Runtime } from '../../runtime/runtime.ts';
import type { EventSink } from '../../telemetry/events.ts';
import type { Settlement } from './settlement.ts';

type Telling = Pick<Runtime, 'emit' | 'log'>;

/** Emits how a run ended, once the store has it. */
export function reportSettled(
  task: BegunTask,
  settlement: Settlement,
  { emit, log }: Telling,
): void {
  const { id, envelope, epoch } = task;
  const { name, queue } = envelope;
  switch (settlement.kind) {
    case 'commit': {
      const { outcome } = settlement;
      if (outcome.kind === 'done') emit('task:done', { id, name, queue, epoch });
      else emit('task:discarded', { id, name, queue, why: outcome.why });
      return;
    }
    case 'fail':
      return emitFailure(task, settlement, emit);
    case 'bury': {
      const { reason, error } = settlement;
      // The event names the reason only.
      log.warn({ task: id, name, epoch, reason, why: error.message }, 'a task is a dead letter');
      emit('task:dead-lettered', { id, name, queue, where: 'worker', reason });
      return;
    }
    case 'release':
    case 'drop':
  }
}

function emitFailure(
  { id, envelope, failures, crashes }: BegunTask,
  { cause: error, delayMs, reason, isCrash }: Extract<Settlement, { readonly kind: 'fail' }>,
  emit: EventSink,
): void {
  const ref = { id, name: envelope.name, queue: envelope.queue };
  if (!isCrash) emit('task:failed', { ...ref, where: 'worker', error });
  if (delayMs === null) emit('task:dead-lettered', { ...ref, where: 'worker', reason });
  else if (isCrash) emit('task:resurrected', { ...ref, resurrections: crashes + 1 });
  else emit('task:retried', { ...ref, attempt: failures + 1, delayMs, error });
}
