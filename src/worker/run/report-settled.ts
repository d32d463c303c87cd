import type { BegunTask, ErrorRecord } from '../../ledger/ledger.ts';
import type { Runtime } from '../../runtime/runtime.ts';
import { createdMs } from '../../runtime/random.ts';
import { inContextOf } from '../../telemetry/ambient.ts';
import type { EventError, EventSink } from '../../telemetry/events.ts';
import { roundMs } from '../../telemetry/round-ms.ts';
import type { Settlement } from './settlement.ts';

/** How long a run waited in its worker, and how long its handler ran. */
export interface RunTimes {
  readonly waitedMs: number;
  readonly ranMs: number;
}

/** Since a task was created, or since its eta: it could not begin before. Null: its id has no time in it. */
function sinceDueMs({ id, envelope }: BegunTask, nowMs: number): number | null {
  const bornMs = createdMs(id);
  return bornMs === null ? null : Math.max(0, nowMs - Math.max(bornMs, envelope.etaMs ?? 0));
}

export function reportStarted(
  task: BegunTask,
  waitedMs: number,
  { emit, clock }: Pick<Runtime, 'emit' | 'clock'>,
): void {
  const { id, envelope, epoch, failures } = task;
  const started = {
    id,
    name: envelope.name,
    queue: envelope.queue,
    epoch,
    attempt: failures + 1,
    waitedMs: roundMs(waitedMs),
    lagMs: sinceDueMs(task, clock.now()),
  };
  inContextOf(envelope, () => emit('task:started', started));
}

export function reportCheckpoint(
  { id, envelope }: BegunTask,
  bytes: number,
  { emit }: Pick<Runtime, 'emit'>,
): void {
  emit('task:checkpointed', { id, name: envelope.name, queue: envelope.queue, bytes });
}

/** Emits how a run ended, once the store has it. */
export function reportSettled(
  task: BegunTask,
  settlement: Settlement,
  times: RunTimes,
  runtime: Pick<Runtime, 'emit' | 'clock'>,
): void {
  inContextOf(task.envelope, () => emitSettled(task, settlement, times, runtime));
}

function emitSettled(
  task: BegunTask,
  settlement: Settlement,
  times: RunTimes,
  { emit, clock }: Pick<Runtime, 'emit' | 'clock'>,
): void {
  const { id, envelope, epoch, failures } = task;
  const { name, queue } = envelope;
  switch (settlement.kind) {
    case 'commit': {
      const { outcome } = settlement;
      if (outcome.kind === 'discarded')
        return emit('task:discarded', { id, name, queue, why: outcome.why });
      return emit('task:done', {
        id,
        name,
        queue,
        epoch,
        attempt: failures + 1,
        waitedMs: roundMs(times.waitedMs),
        durationMs: roundMs(times.ranMs),
        totalMs: sinceDueMs(task, clock.now()),
      });
    }
    case 'fail':
      return emitFailure(task, settlement, times, emit);
    case 'bury': {
      const { reason, error } = settlement;
      return emit('task:dead-lettered', {
        id,
        name,
        queue,
        where: 'worker',
        reason,
        error: briefError(error),
      });
    }
    case 'release':
    case 'drop':
  }
}

function emitFailure(
  { id, envelope, failures, crashes }: BegunTask,
  settlement: Extract<Settlement, { readonly kind: 'fail' }>,
  { ranMs }: RunTimes,
  emit: EventSink,
): void {
  const { cause: error, delayMs, reason, isCrash } = settlement;
  const ref = { id, name: envelope.name, queue: envelope.queue };
  const attempt = failures + 1;
  const where = 'worker';
  if (!isCrash) emit('task:failed', { ...ref, where, attempt, durationMs: roundMs(ranMs), error });
  if (delayMs === null) {
    const last = briefError(settlement.error);
    emit('task:dead-lettered', { ...ref, where, reason, error: last });
  } else if (isCrash) emit('task:resurrected', { ...ref, resurrections: crashes + 1 });
  else emit('task:retried', { ...ref, attempt, delayMs: roundMs(delayMs), error });
}

const briefError = ({ type, message }: ErrorRecord): EventError => ({ type, message });
