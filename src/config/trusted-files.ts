import { lstatSync, statSync } from 'node:fs';
import { dirname } from 'node:path';

/** The owners whose files this process may load without being asked to: itself, root, and the owner of `cwd`. */
export type Owners = ReadonlySet<number> | null;

const WRITABLE_BY_ALL = 0o002;
const STICKY = 0o1000;

/**
 * Null if files have no owners (Windows). A user who starts a command in a folder runs the programs of its `node_modules`, so
 * its owner is trusted already; that also lets root, or the random user of a container platform, run an image whose
 * files belong to `node`.
 */
export function trustedOwners(cwd: string): Owners {
  const own = process.geteuid?.();
  return own === undefined ? null : new Set([own, 0, statSync(cwd).uid]);
}

/** Why a file that was found, and not named, is not loaded; null: it may be. `link` is the path it was found under. */
export function distrustOf(file: string, link: string, owners: Owners): string | null {
  if (owners === null) return null;
  const { mode, uid } = statSync(file);
  const stranger = [uid, lstatSync(link).uid].find(owner => !owners.has(owner));
  if (stranger !== undefined) return `belongs to another user (uid ${stranger})`;
  if (mode & WRITABLE_BY_ALL) return 'may be written by every user';
  const folders = [dirname(file), dirname(link)].map(folder => statSync(folder).mode);
  const isReplaceable = folders.some(folder => folder & WRITABLE_BY_ALL && !(folder & STICKY));
  return isReplaceable ? 'is in a folder that every user may write to' : null;
}

/** Whether a folder above may be searched: not one in which every user may create files, such as /tmp. */
export function isClosedFolder(folder: string, owners: Owners): boolean {
  if (owners === null) return true;
  const { mode, uid } = statSync(folder);
  return !(mode & WRITABLE_BY_ALL) && owners.has(uid);
}
