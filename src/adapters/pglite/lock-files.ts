import { randomBytes } from 'node:crypto';
import { link, open, readdir, readFile, rename, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { parseLockRecord, writeLockRecord, type LockRecord } from './lock-record.ts';

/** The newest lock file of a folder. */
export interface TopLock {
  readonly generation: number;
  /** `free`: there is no such file. `unreadable`: it exists, but its content is unknown. */
  readonly record: LockRecord | 'free' | 'unreadable';
}

const LOCK_FILE = /^lock\.([1-9]\d{0,14})$/;
const DRAFT_FILE = /^lock\.draft-/;

/**
 * The files of the lock, without any decision: `lock.<generation>`, `lock.generation` (the newest
 * generation that was ever won for certain) and short-lived drafts.
 */
export class LockFiles {
  readonly #folder: string;

  constructor(folder: string) {
    this.#folder = folder;
  }

  pathOf(generation: number): string {
    return join(this.#folder, `lock.${generation}`);
  }

  /**
   * Reading a folder is not atomic and may miss the newest file; see the proof in folder-lock.ts.
   */
  async top(): Promise<TopLock> {
    const listed = await this.#generations();
    const generation = Math.max(0, ...listed, await this.settledGeneration());
    const text = generation === 0 ? null : await readIfThere(this.pathOf(generation));
    if (text === null) return { generation, record: 'free' };
    return { generation, record: parseLockRecord(text) ?? 'unreadable' };
  }

  /** Creates the file of that generation, complete from its first moment; false when it exists. */
  async create(generation: number, record: LockRecord): Promise<boolean> {
    const draft = await this.#draft(writeLockRecord(record));
    try {
      await link(draft, this.pathOf(generation));
      return true;
    } catch (error) {
      // ENOENT: a new holder has swept our draft away, so there is a new holder.
      if (isErrno(error, 'EEXIST') || isErrno(error, 'ENOENT')) return false;
      throw error;
    } finally {
      await rm(draft, { force: true });
    }
  }

  /** Replaces the file in one step: readers see the old text or the new one. */
  async replace(generation: number, record: LockRecord): Promise<void> {
    await rename(await this.#draft(writeLockRecord(record)), this.pathOf(generation));
  }

  async remove(generation: number): Promise<void> {
    await rm(this.pathOf(generation), { force: true });
  }

  async settledGeneration(): Promise<number> {
    const text = await readIfThere(join(this.#folder, 'lock.generation'));
    const generation = Number(text ?? '0');
    return Number.isSafeInteger(generation) && generation > 0 ? generation : 0;
  }

  async settleGeneration(generation: number): Promise<void> {
    await rename(await this.#draft(`${generation}\n`), join(this.#folder, 'lock.generation'));
  }

  /** Removes what older generations and interrupted starts left behind. For the holder only. */
  async sweepBelow(generation: number): Promise<void> {
    const names = await this.#names();
    const drafts = names.filter(name => DRAFT_FILE.test(name));
    const older = (await this.#generations()).filter(other => other < generation);
    await Promise.all([
      ...drafts.map(name => rm(join(this.#folder, name), { force: true })),
      ...older.map(other => this.remove(other)),
    ]);
  }

  async #generations(): Promise<readonly number[]> {
    return (await this.#names()).flatMap(name => {
      const match = LOCK_FILE.exec(name);
      return match === null ? [] : [Number(match[1])];
    });
  }

  async #names(): Promise<readonly string[]> {
    try {
      return await readdir(this.#folder);
    } catch (error) {
      if (isErrno(error, 'ENOENT')) return [];
      throw error;
    }
  }

  /** Synced before it gets its name: after a power cut a named lock is not found empty. */
  async #draft(text: string): Promise<string> {
    const path = join(this.#folder, `lock.draft-${randomBytes(12).toString('hex')}`);
    const file = await open(path, 'wx', 0o600);
    try {
      await file.writeFile(text);
      await file.sync();
    } finally {
      await file.close();
    }
    return path;
  }
}

async function readIfThere(path: string): Promise<string | null> {
  try {
    return await readFile(path, 'utf8');
  } catch (error) {
    if (isErrno(error, 'ENOENT')) return null;
    throw error;
  }
}

function isErrno(error: unknown, code: string): boolean {
  return (error as NodeJS.ErrnoException).code === code;
}
