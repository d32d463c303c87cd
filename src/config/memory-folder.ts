import { randomBytes } from 'node:crypto';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { outlastError } from '../errors/error.ts';
import type { OutboxTarget } from './database-target.ts';

/** Names the folder for processes that this one starts. */
const MEMORY_ENV = 'OUTLAST_MEMORY_FOLDER';
const MEMORY_URL = 'pglite:memory://';

let own: string | undefined;

/**
 * A database in memory, which one process has at a time. Its processes and threads reach it as they reach one in a folder: through a
 * lock file with an address. So it has a folder too, for that file alone, which goes when the database is closed.
 */
export function memoryTarget(kind: string): OutboxTarget {
  own ??= join(tmpdir(), `outlast-memory-${randomBytes(16).toString('hex')}`);
  return Object.freeze({ kind, url: MEMORY_URL, folder: process.env[MEMORY_ENV] ?? own });
}

export const isInMemory = ({ url }: Pick<OutboxTarget, 'url'>): boolean => url === MEMORY_URL;

/** From now on processes that are started here find it. */
export function shareMemory(folder: string): void {
  process.env[MEMORY_ENV] = folder;
}

/** The next one is another one. */
export function forgetMemory(): void {
  own = undefined;
  delete process.env[MEMORY_ENV];
}

/** A command is a process of its own: what it would write there is gone when it ends. */
export function refuseOwnMemory(target: OutboxTarget): void {
  if (isInMemory(target) && process.env[MEMORY_ENV] === undefined) throw inOtherMemory();
}

export function inOtherMemory(): Error {
  return outlastError('ERR_CONFIG_TIER', {
    message:
      'pglite:memory:// is in the memory of the process that has opened it, and this is another one',
    hint: 'Use it with `outlast dev`, or with createOutlast and startWorker in one process; else use pglite:./folder or postgres://….',
    fields: { option: 'database' },
  });
}
