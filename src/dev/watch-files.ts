import { type FSWatcher, readdirSync, statSync, watch } from 'node:fs';
import { basename, join } from 'node:path';
import type { Clock } from '../runtime/runtime.ts';
import type { Logger } from '../telemetry/logger.ts';

export interface WatchOptions {
  /** Folders whose files are watched, with all below. */
  readonly folders: readonly string[];
  /** A folder with files of ours: an embedded database. */
  readonly ignored: string | null;
  readonly clock: Clock;
  readonly log: Logger;
  /** Called with the files of one burst of changes. */
  readonly onChange: (files: readonly string[]) => void;
}

export interface FileWatch {
  close(): void;
}

const SOURCE = /\.([cm]?[jt]sx?|json)$/;
/** An editor writes a file in several steps, a compiler writes many. */
const QUIET_MS = 100;
/** Each folder takes a watch of the operating system. A project with more has its code in fewer. */
const MAX_FOLDERS = 2_000;

/** Reports changes of source files. Installed packages and hidden folders are not watched. */
export function watchFiles(options: WatchOptions): FileWatch {
  return new Watch(options);
}

class Watch implements FileWatch {
  readonly #options: WatchOptions;
  readonly #watchers = new Map<string, FSWatcher>();
  readonly #changed = new Set<string>();
  #isFull = false;
  #isClosed = false;
  #cancel = (): void => undefined;

  constructor(options: WatchOptions) {
    this.#options = options;
    for (const folder of options.folders) this.#add(folder);
  }

  close(): void {
    this.#isClosed = true;
    this.#cancel();
    for (const watcher of this.#watchers.values()) watcher.close();
    this.#watchers.clear();
  }

  #add(folder: string): void {
    if (this.#isClosed || this.#watchers.has(folder) || folder === this.#options.ignored) return;
    if (this.#watchers.size >= MAX_FOLDERS) return this.#giveUp(`there are over ${MAX_FOLDERS}`);
    try {
      const watcher = watch(folder, (_event, name) => this.#see(folder, name));
      // It ends with its folder.
      watcher.on('error', () => this.#drop(folder));
      this.#watchers.set(folder, watcher);
      for (const entry of readdirSync(folder, { withFileTypes: true }))
        if (entry.isDirectory() && isWatched(entry.name)) this.#add(join(folder, entry.name));
    } catch (error) {
      this.#drop(folder);
      const { code = '' } = error as NodeJS.ErrnoException;
      // Gone again, or not ours to read.
      if (!['ENOENT', 'ENOTDIR', 'EACCES', 'EPERM'].includes(code)) this.#giveUp(code);
    }
  }

  #drop(folder: string): void {
    this.#watchers.get(folder)?.close();
    this.#watchers.delete(folder);
  }

  /** Once: a limit of the system is reached for all that follow. */
  #giveUp(why: string): void {
    if (this.#isFull) return;
    this.#isFull = true;
    this.#options.log.warn({ why }, 'not all folders can be watched: restart outlast dev yourself');
  }

  #see(folder: string, name: string | null): void {
    if (this.#isClosed || name === null || !isWatched(basename(name))) return;
    const path = join(folder, name);
    if (SOURCE.test(name)) return this.#note(path);
    if (!isFolder(path)) return;
    this.#add(path);
    // Its files may have been written before it was watched.
    for (const file of readdirSync(path, { recursive: true, withFileTypes: true }))
      if (file.isFile() && SOURCE.test(file.name)) return this.#note(path);
  }

  #note(path: string): void {
    this.#changed.add(path);
    this.#cancel();
    this.#cancel = this.#options.clock.timer(QUIET_MS, () => {
      const files = [...this.#changed].toSorted();
      this.#changed.clear();
      this.#options.onChange(files);
    });
  }
}

const isWatched = (name: string): boolean => !name.startsWith('.') && name !== 'node_modules';

const isFolder = (path: string): boolean =>
  statSync(path, { throwIfNoEntry: false })?.isDirectory() ?? false;
