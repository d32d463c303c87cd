import { isUnavailable } from '../../errors/error.ts';
import { crashed } from './settlement.ts';
import type { Run, RunDeps } from './run.ts';

/**
 * A run met an error that is not its handler's: of a limit, of a key store, of our own. It counts as a crash, or a task
 * that meets it every time would be given back and begun forever. An error of a store that is away does not count: a
 * beat finds that no process runs the task, and gives it back.
 */
export async function failRun(run: Run, error: unknown, deps: RunDeps): Promise<void> {
  const { id, envelope } = run.task;
  deps.runtime.log.error({ error, task: id }, 'a run ended in a way it should not');
  const handler = deps.handlers.get(envelope.name);
  if (run.isSettled || isUnavailable(error) || !handler) return;
  const cause = error instanceof Error ? error : new Error(String(error));
  await run.turnBack(crashed(handler, run.task, cause));
}
