/**
 * Names every gap between two effects. In production reaching one does nothing. The simulator and the
 * chaos suite stop, kill or delay a process exactly there, and the chaos suite walks the whole list.
 */
export const FAULT_POINTS = [
  'relay.claimed',
  'relay.before-publish',
  'relay.written-not-confirmed',
  'relay.published-not-settled',
  'relay.mid-settle',
  'relay.moved',
  'relay.looked-not-settled',
  'worker.taken-not-begun',
  'worker.admitted-not-run',
  'worker.begun-not-started',
  'worker.checkpoint-kept-not-told',
  'worker.ran-not-committed',
  'worker.kept-not-committed',
  'worker.committed-not-acked',
  'worker.committed-not-followed',
  'worker.failed-not-told',
  'worker.ended-not-freed',
  'worker.drain-before-release',
  'ledger.begun-in-part',
  'ledger.committed-in-part',
  'door.fenced',
  'door.effect-not-committed',
  'door.committed-not-told',
  'chord.told-not-acked',
  'reaper.closed-not-requeued',
  'reaper.mid-chunk',
  'heartbeat.renewed',
  'refusals.published-not-handed-back',
  'schedule.due',
  'schedule.locked-not-written',
  'schedule.written-not-advanced',
  'schedule.advanced-not-committed',
  'schedule.committed-not-told',
  'move.messages-in-not-acked',
  'move.tasks-in-not-ended',
  'move.mid-end',
  'move.emptied-not-forgotten',
] as const;

export type FaultPointName = (typeof FAULT_POINTS)[number];

/** Reaches a fault point. May suspend the caller for ever: that is what a killed process looks like. */
export type FaultPoint = (name: FaultPointName) => Promise<void> | undefined;

export const noFaults: FaultPoint = () => undefined;

/** Where a test installs its own fault point, before Outlast runs in the process. */
const HOOK: unique symbol = Symbol.for('outlast.fault-point');

/** The fault point of this process: none, unless a test has installed one. The package itself never does. */
export function processFaultPoint(): FaultPoint {
  const { [HOOK]: armed } = globalThis as { [HOOK]?: FaultPoint };
  return armed ?? noFaults;
}
