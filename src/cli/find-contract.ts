import { createLoader, loadTaskModules } from '../config/load-config.ts';
import type { Task } from '../task/define-task.ts';
import type { Handler } from '../worker/handler.ts';
import type { CommandContext } from './context.ts';

/** The contract of a task whose handler the configuration names. */
export async function findContract(
  name: string,
  { context, loaded }: CommandContext,
): Promise<Task | undefined> {
  const { tasks } = context.config;
  if (tasks.length === 0) return undefined;
  const handlers = await loadTaskModules(
    tasks,
    loaded.file ?? loaded.folder,
    createLoader(loaded.loader),
  );
  return handlers
    .map(({ handler }) => (handler as Handler).task)
    .find(known => known.name === name);
}
