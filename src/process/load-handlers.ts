import { pathToFileURL } from 'node:url';
import { createLoader, loadTaskModules, type LoaderChoice } from '../config/load-config.ts';
import { isHandler, type Handler } from '../worker/handler.ts';

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
