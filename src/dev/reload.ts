import { dirname, sep } from 'node:path';
import type { LoadedConfig } from '../config/load-config.ts';
import { matchModules } from '../config/match-modules.ts';
import { isEmbedded } from '../config/database-url.ts';
import type { Context } from '../context/context.ts';
import { checkHandlers, type SuperviseOptions } from '../process/supervise.ts';
import type { Supervisor } from '../worker/supervisor.ts';
import { watchFiles } from './watch-files.ts';

export interface ReloadParts {
  readonly loaded: LoadedConfig;
  readonly context: Context;
  readonly supervisor: Pick<Supervisor, 'replace'>;
  readonly options: Pick<SuperviseOptions, 'spec' | 'env'>;
}

export interface Reload {
  close(): void;
}

/**
 * Gives the worker processes new code when files change. It is loaded in a process of its own first: code that does not load is
 * reported, and the workers keep what they have. Each of them finishes its tasks while the next one takes its place.
 */
export function reloadOnChange({ loaded, context, supervisor, options }: ReloadParts): Reload {
  const { config, log, runtime } = context;
  const over = new AbortController();
  let pending: readonly string[] | null = null;
  let isBusy = false;

  const reload = async (files: readonly string[]): Promise<void> => {
    if (loaded.file !== null && files.includes(loaded.file))
      log.warn({}, 'the config file has changed: workers take it now, the rest after a restart');
    const error = await checkHandlers(options, over.signal);
    if (over.signal.aborted) return;
    if (error !== null)
      return log.error({ error, files }, 'the changed files do not load: workers keep their code');
    log.info({ files }, 'files have changed: workers load them');
    supervisor.replace('its files have changed');
  };

  /** What changes during a check is checked after it. */
  const onChange = (files: readonly string[]): void => {
    pending = [...new Set([...(pending ?? []), ...files])];
    if (!isBusy) void work();
  };
  const work = async (): Promise<void> => {
    isBusy = true;
    while (pending !== null && !over.signal.aborted) {
      const files = pending;
      pending = null;
      await reload(files);
    }
    isBusy = false;
  };

  const base = loaded.file ?? loaded.folder;
  const modules = matchModules(config.tasks, base).map(file => dirname(file));
  const watch = watchFiles({
    folders: outermost([loaded.folder, ...modules]),
    ignored: isEmbedded(config.database) ? config.database.folder : null,
    clock: runtime.clock,
    log,
    onChange,
  });
  return {
    close: () => {
      over.abort();
      watch.close();
    },
  };
}

/** Without those that are within others. */
function outermost(folders: readonly string[]): readonly string[] {
  const all = [...new Set(folders)];
  return all.filter(one => !all.some(other => other !== one && one.startsWith(`${other}${sep}`)));
}
