import { chmod, mkdir, stat } from 'node:fs/promises';
import { dirname, resolve } from 'node:path';
import { outlastError } from '../../errors/error.ts';
import type { Endpoint } from '../remote/wire.ts';
import { LockFiles, type TopLock } from './lock-files.ts';
import type { LockRecord } from './lock-record.ts';
import { identifyThisProcess, judgeLiveness, type ProcessIdentity } from './process-identity.ts';

/**
 * The exclusive right of one process to a folder. Two processes that open one PGlite folder silently lose
 * committed rows, so this has to hold under every interleaving.
 *
 *   free ──create n+1──► held ──release──► released ──create n+1 by any process──► held ...
 *                          └──death──► stale ──create n+1 by any process──► held ...
 *
 * Lock files are numbered. The holder is the living process named in the highest one. To acquire:
 *
 *   1. find the highest number n; go on only if lock.n is released, absent or of a dead process;
 *   2. link(2) a complete file to lock.<n+1>, which only one of many processes can; else start over;
 *   3. read lock.generation; if it is above n+1, remove our file and start over;
 *   4. write n+1 to lock.generation, then remove lower lock files.
 *
 * Why no two processes hold it. "Dead" and "released" are for ever, so a finding of step 1 may be
 * arbitrarily old and is still true of lock.n; what can be outdated is that n is the highest.
 *
 * - A number m is removed only by step 4 of a higher holder (or by step 3, where a higher one is
 *   known), so lock.generation was above m before m was gone.
 * - If our link to m = n+1 succeeds and m never existed before, no process can have m+1: only a
 *   process that found m creates it. We are the highest and hold the lock.
 * - If m existed before and was removed, lock.generation is above m by the first point: step 3 sees
 *   it and we withdraw. Without step 3 a process that slept between 1 and 2 would hold the lock
 *   besides the true holder. While our stray lock.m exists it is not the highest; a process that
 *   misses the highest (reading a folder is not atomic) and finds ours goes through steps 2 and 3 as
 *   well.
 * - lock.generation only grows: only a holder writes it, which stays the holder until it dies
 *   or releases, and release comes after step 4.
 * - A death between any two steps leaves a stale highest file, or a stray lower one that the next
 *   holder sweeps; nothing has to be undone.
 * - Release replaces the holder's own file in one rename and removes nothing, so there is no moment
 *   at which the number is free for a process that read it earlier.
 *
 * A holder that is stopped or wedged is alive and keeps the lock. Whether a holder in another container
 * or on another machine lives is unknown here: it keeps the lock until a person deletes its file.
 *
 * Shown by `never lets two in while many acquire, release and die` in processes.test.ts, which fails
 * within seconds without step 3, and step by step in folder-lock.test.ts.
 */
export class FolderLock {
  readonly #files: LockFiles;
  readonly #generation: number;
  readonly #holder: ProcessIdentity;
  #isReleased = false;
  /** Rewrites of the file go one after the other, so that a release is never overwritten. */
  #lastWrite: Promise<void> = Promise.resolve();

  constructor(files: LockFiles, generation: number, holder: ProcessIdentity) {
    this.#files = files;
    this.#generation = generation;
    this.#holder = holder;
  }

  /** Publishes where this process serves its database. */
  async publishEndpoint(endpoint: Endpoint): Promise<void> {
    if (this.#isReleased) return;
    await this.#write({ state: 'held', holder: this.#holder, endpoint });
  }

  /** May be called twice: both wait for the same end. */
  async release(): Promise<void> {
    if (this.#isReleased) return this.#lastWrite;
    this.#isReleased = true;
    await this.#write({ state: 'released', holder: this.#holder, endpoint: null });
  }

  #write(record: LockRecord): Promise<void> {
    const write = (): Promise<void> => this.#files.replace(this.#generation, record);
    this.#lastWrite = this.#lastWrite.then(write, write);
    return this.#lastWrite;
  }
}

/** The living process that holds the folder. */
export interface Holder {
  readonly pid: number;
  /**
   * Null while it does not serve its database: it is starting, or a command that will soon be done.
   */
  readonly endpoint: Endpoint | null;
}

/** Each round that fails means that another process got further, so a few always suffice. */
const MAX_ROUNDS = 100;

/**
 * Takes the folder for this process, creating it when it is missing; never waits for another
 * holder.
 */
export async function acquireFolderLock(folder: string): Promise<FolderLock> {
  const path = resolve(folder);
  await makePrivateFolder(path);
  const files = new LockFiles(path);
  const self = await identifyThisProcess();
  for (let round = 0; round < MAX_ROUNDS; round++) {
    const { generation, record } = await files.top();
    const refusal = await judge(record, self);
    if (refusal !== null) throw folderHeld(path, refusal, files.pathOf(generation));
    if (await win(files, generation + 1, self)) return new FolderLock(files, generation + 1, self);
  }
  throw folderHeld(path, { pid: 0, reason: 'contended' }, path);
}

/** The token in the lock file opens the whole database, so no other user may look inside. */
async function makePrivateFolder(path: string): Promise<void> {
  await mkdir(dirname(path), { recursive: true });
  await mkdir(path, { recursive: true, mode: 0o700 });
  if (((await stat(path)).mode & 0o077) !== 0) await chmod(path, 0o700);
}

/** The living holder of a folder, for processes that want to connect to it; null when there is none. */
export async function readHolder(folder: string): Promise<Holder | null> {
  const self = await identifyThisProcess();
  const files = new LockFiles(resolve(folder));
  let top = await files.top();
  // A file that is listed but gone when it is read has a successor: look again.
  for (let round = 0; isVanished(top) && round < 3; round++) top = await files.top();
  const { record } = top;
  if (record === 'free') return null;
  if (record === 'unreadable') return { pid: 0, endpoint: null };
  if ((await judge(record, self)) === null) return null;
  return { pid: record.holder.pid, endpoint: record.endpoint };
}

function isVanished({ generation, record }: TopLock): boolean {
  return record === 'free' && generation > 0;
}

interface Refusal {
  readonly pid: number;
  readonly reason: 'alive' | 'unknown' | 'unreadable' | 'contended';
}

/** Null when the lock may be taken over. */
async function judge(
  record: LockRecord | 'free' | 'unreadable',
  self: ProcessIdentity,
): Promise<Refusal | null> {
  if (record === 'free') return null;
  if (record === 'unreadable') return { pid: 0, reason: 'unreadable' };
  if (record.state === 'released') return null;
  const liveness = await judgeLiveness(record.holder, self);
  return liveness === 'dead' ? null : { pid: record.holder.pid, reason: liveness };
}

/** Steps 2 to 4. */
async function win(files: LockFiles, generation: number, self: ProcessIdentity): Promise<boolean> {
  if (!(await files.create(generation, { state: 'held', holder: self, endpoint: null }))) {
    return false;
  }
  try {
    if ((await files.settledGeneration()) > generation) {
      await files.remove(generation);
      return false;
    }
    await files.settleGeneration(generation);
    await files.sweepBelow(generation);
    return true;
  } catch (error) {
    // Else a full disk would leave the folder held by a process that does not know it holds it. If
    // even this cannot be written, the end of the process frees the folder.
    await new FolderLock(files, generation, self).release().catch(() => undefined);
    throw error;
  }
}

const HINTS: Readonly<Record<Refusal['reason'], (file: string) => string>> = {
  alive: () =>
    'Stop that process first. Other outlast commands find a running `outlast dev` by themselves.',
  unknown: file =>
    `The holder is in another container or machine. When it is surely gone, delete ${file}.`,
  unreadable: file =>
    `The lock file cannot be read. When no process uses the folder, delete ${file}.`,
  contended: () => 'Many processes are starting on this folder at once: start one.',
};

function folderHeld(folder: string, { pid, reason }: Refusal, file: string): Error {
  const who = pid === 0 ? 'another process' : `process ${pid}`;
  return outlastError('ERR_FOLDER_HELD', {
    message: `The embedded database in ${folder} is held by ${who}.`,
    hint: HINTS[reason](file),
    fields: { folder, pid },
  });
}
