import { outlastError } from '../errors/error.ts';
import type { Handler } from '../worker/handler.ts';

export function handlerMap(handlers: readonly Handler[]): ReadonlyMap<string, Handler> {
  const map = new Map<string, Handler>();
  for (const handler of handlers) {
    const { name } = handler.task;
    if (map.has(name) && map.get(name) !== handler) {
      throw outlastError('ERR_TASK_DUPLICATE', {
        message: `${name} has two handlers`,
        hint: 'Remove one of them; a task has one handler per worker.',
        fields: { task: name },
      });
    }
    map.set(name, handler);
  }
  return map;
}
