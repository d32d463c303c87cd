import { outlastError } from '../errors/error.ts';
import type { Handler } from '../worker/handler.ts';

/** `fileOf` tells where a handler is written, where that is known. */
export function handlerMap(
  handlers: readonly Handler[],
  fileOf?: (handler: Handler) => string,
): ReadonlyMap<string, Handler> {
  const map = new Map<string, Handler>();
  for (const handler of handlers) {
    const { name } = handler.task;
    const other = map.get(name);
    if (other !== undefined && other !== handler) {
      const files = fileOf === undefined ? '' : `, in ${fileOf(other)} and in ${fileOf(handler)}`;
      throw outlastError('ERR_TASK_DUPLICATE', {
        message: `${name} has two handlers${files}`,
        hint: 'Remove one of them; a task has one handler per worker.',
        fields: { task: name },
      });
    }
    map.set(name, handler);
  }
  return map;
}
