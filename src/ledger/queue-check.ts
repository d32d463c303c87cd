import { advise, ok, problem, spoken, type Check, type CheckLimits } from '../telemetry/checkup.ts';

/** A queue whose tasks are long overdue, and from which no living worker takes. */
export interface LateQueue {
  readonly queue: string;
  readonly waiting: number;
  readonly isPaused: boolean;
}

/** Queues that no worker takes from: their name is mistyped somewhere, or their workers are gone. */
export function queueChecks(
  late: readonly LateQueue[],
  { maxOrphanMs }: CheckLimits,
): readonly Check[] {
  if (late.length === 0) return [ok('queues', 'no task is overdue in a queue without a worker')];
  return late.map(({ queue, waiting, isPaused }) => {
    const waits = `${waiting} tasks of ${queue} are due for longer than ${spoken(maxOrphanMs)}`;
    const details = { queue, waiting };
    return isPaused
      ? advise('queues', `${waits}: it is paused`, `npx outlast queues resume ${queue}`, details)
      : problem(
          'queues',
          `${waits}, and no worker takes from it`,
          `Start one: npx outlast worker --queues ${queue}.`,
          details,
        );
  });
}
