import { pathToFileURL } from 'node:url';
import { type LoaderChoice, createLoader, loadTaskModules } from '../config/load-config.ts';
import { type Handler, isHandler } from '../worker/handler.ts';
import { outlastError } from '../errors/error.ts';

/** Where to find handlers. */
export interface HandlerSource {
  /** Patterns of module files, relative to `base`; or the files themselves. */
  readonly patterns: readonly string[];
  readonly base: string;
  readonly loader: LoaderChoice;
  /** Modules of Outlast itself, which need no loader. */
  readonly modules: readonly string[];
}

/** A handler and the module that exports it. */
export interface FoundHandler {
  readonly handler: Handler;
  readonly file: string;
}

/** Every handler that these modules export. */
export async function loadHandlers(source: HandlerSource): Promise<readonly FoundHandler[]> {
  const { patterns, base, loader, modules } = source;
  const loaded = await loadTaskModules(patterns, base, createLoader(loader));
  const found = loaded.map(({ handler, file }) => ({ handler: handler as Handler, file }));
  for (const file of modules) {
    const exports = (await import(pathToFileURL(file).href)) as Record<string, unknown>;
    for (const handler of Object.values(exports).filter(isHandler)) found.push({ handler, file });
  }
  return found;
}

/** `fileOf` returns the file of a handler, where that is known. */
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

/** A worker without handlers would set every task aside and run nothing: that is a mistake. */
export function requireHandlers(
  handlers: ReadonlyMap<string, Handler>,
  patterns: readonly string[],
): void {
  if (handlers.size > 0) return;
  const where = patterns.length === 0 ? '' : `: ${patterns.join(', ')} export none`;
  throw outlastError('ERR_NO_HANDLERS', {
    message: `this worker has no handler${where}`,
    hint: 'Export what `defineHandler` returns from those modules, or give `startWorker` the handlers in `tasks`.',
    fields: { tasks: patterns },
  });
}
