import { ok, problem, spoken, type Check, type CheckLimits } from '../telemetry/checkup.ts';
import type { RefusalLog } from './ledger.ts';

/** Beyond this the count is reported as "this many and more". */
const MOST_COUNTED = 1_000;

/** Tasks that every worker of their queue has refused: a handler is missing, or not deployed yet. */
export async function checkRefused(
  refusals: Pick<RefusalLog, 'list'>,
  { maxOrphanMs }: CheckLimits,
): Promise<Check> {
  const { tasks: listed, next } = await refusals.list(MOST_COUNTED);
  const late = listed.filter(({ waitedMs }) => waitedMs > maxOrphanMs);
  if (late.length === 0) return ok('handlers', 'no task waits for a worker that has its handler');
  const tasks = [...new Set(late.map(({ envelope }) => `${envelope.name} in ${envelope.queue}`))];
  const count = next === null ? String(late.length) : `${late.length} or more`;
  return problem(
    'handlers',
    `${count} tasks wait for longer than ${spoken(maxOrphanMs)} for a worker with a handler: ${tasks.join(', ')}`,
    'Start a worker that exports it; after `unknownTaskTimeout` they become dead letters.',
    { waiting: late.length, tasks, refusedBy: [...new Set(late.map(({ worker }) => worker))] },
  );
}
