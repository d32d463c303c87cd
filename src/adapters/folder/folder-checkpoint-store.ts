import { createHash, randomBytes } from 'node:crypto';
import { constants } from 'node:fs';
import { open, readdir, realpath, rename, stat, unlink, type FileHandle } from 'node:fs/promises';
import { join } from 'node:path';
import { isUnavailable, outlastError } from '../../errors/error.ts';
import type { CheckpointKey, CheckpointStore } from '../../ledger/checkpoint-store.ts';
import { PatientFiles } from './patient-files.ts';

const { O_CREAT, O_EXCL, O_NOFOLLOW, O_RDONLY, O_WRONLY } = constants;
const NAME = /^[0-9a-f]{64}-\d+-\d+$/;
const TEMPORARY = /^\.[0-9a-f]{64}-\d+-\d+\.[0-9a-f]+\.tmp$/;
/** The first line of a file names its task: the file name is a digest, and does not. */
const MAX_HEAD_BYTES = 512;

/**
 * Large checkpoints in a folder that all workers share. A name is made of digests and numbers, so no id leads out of the
 * folder; nothing is overwritten in place, and a link instead of a file is not followed.
 */
export class FolderCheckpointStore implements CheckpointStore {
  readonly #folder: string;
  readonly #files: PatientFiles;
  #resolved: Promise<string> | null = null;

  /** @param limitMs how long a call into the file system may take: a large file on a slow network is written in one */
  constructor(folder: string, limitMs = 30_000) {
    this.#folder = folder;
    this.#files = new PatientFiles(folder, limitMs);
  }

  /** Resolved once: later changes of the path have no effect. */
  #root(): Promise<string> {
    this.#resolved ??= resolveFolder(this.#folder, this.#files).catch((error: unknown) => {
      // It may answer the next one.
      this.#resolved = null;
      throw error;
    });
    return this.#resolved;
  }

  /** Refuses a path that is no folder, before anything depends on it. */
  async check(): Promise<void> {
    await this.#root();
  }

  async write(key: CheckpointKey, data: Uint8Array): Promise<void> {
    const root = await this.#root();
    const name = nameOf(key);
    const temporary = join(root, `.${name}.${randomBytes(8).toString('hex')}.tmp`);
    try {
      await this.#writeWhole(temporary, [headOf(key), data]);
      await this.#files.call(() => rename(temporary, join(root, name)));
    } catch (error) {
      // On a full disk it would take space from the next one.
      await this.#unlink(temporary).catch(() => undefined);
      throw error;
    }
    await this.#syncFolder(root);
  }

  async read(key: CheckpointKey, size: number): Promise<Uint8Array | null> {
    return await this.#withFile(nameOf(key), async file => {
      const head = headOf(key);
      const found = await this.#files.call(() => file.stat());
      if (!found.isFile() || found.size !== head.length + size) return null;
      const bytes = await this.#files.call(() => file.readFile());
      return bytes.subarray(0, head.length).equals(head) ? bytes.subarray(head.length) : null;
    });
  }

  async remove(key: CheckpointKey): Promise<void> {
    await this.#unlink(join(await this.#root(), nameOf(key)));
  }

  async list(
    ageMs: number,
    limit: number,
    after: CheckpointKey | null,
  ): Promise<readonly CheckpointKey[]> {
    const behind = after === null ? '' : nameOf(after);
    const root = await this.#root();
    const names = (await this.#files.call(() => readdir(root))).sort();
    const keys: CheckpointKey[] = [];
    for (const name of names) {
      const isTemporary = TEMPORARY.test(name);
      if (!isTemporary && (!NAME.test(name) || name <= behind)) continue;
      if (!(await this.#isOlder(name, ageMs))) continue;
      // A process died while writing it.
      if (isTemporary) await this.#unlink(join(root, name));
      else keys.push(...(await this.#keyIn(name)));
      if (keys.length === limit) break;
    }
    return keys;
  }

  async #isOlder(name: string, ageMs: number): Promise<boolean> {
    const path = join(await this.#root(), name);
    const found = await this.#files.call(() => stat(path).catch(() => null));
    return found !== null && found.mtimeMs < Date.now() - ageMs;
  }

  async #keyIn(name: string): Promise<readonly CheckpointKey[]> {
    const key = await this.#withFile(name, async file => {
      const { buffer, bytesRead } = await this.#files.call(() =>
        file.read(Buffer.alloc(MAX_HEAD_BYTES), 0, MAX_HEAD_BYTES, 0),
      );
      const [line = ''] = buffer.subarray(0, bytesRead).toString().split('\n');
      return readHead(line);
    });
    return key !== null && nameOf(key) === name ? [key] : [];
  }

  /** Null if there is no such file, or if it is a link. */
  async #withFile<T>(name: string, fn: (file: FileHandle) => Promise<T | null>): Promise<T | null> {
    let file: FileHandle;
    try {
      file = await this.#open(join(await this.#root(), name), O_RDONLY | O_NOFOLLOW);
    } catch (error) {
      if (['ENOENT', 'ELOOP'].includes((error as NodeJS.ErrnoException).code ?? '')) return null;
      throw error;
    }
    try {
      return await fn(file);
    } finally {
      await this.#files.close(file);
    }
  }

  #open(path: string, flags: number, mode?: number): Promise<FileHandle> {
    return this.#files.call(
      () => open(path, flags, mode),
      file => void file.close().catch(() => undefined),
    );
  }

  /** All of it or an error: a write to a disk that has just become full may store a part, and only its count shows that. */
  async #writeWhole(path: string, parts: readonly Uint8Array[]): Promise<void> {
    const file = await this.#open(path, O_CREAT | O_EXCL | O_WRONLY | O_NOFOLLOW, 0o600);
    try {
      for (const part of parts) await this.#files.call(() => file.writeFile(part));
      await this.#files.call(() => file.sync());
    } finally {
      await this.#files.close(file);
    }
  }

  /** A rename survives a crash only when its folder was synced too. */
  async #syncFolder(root: string): Promise<void> {
    const folder = await this.#open(root, O_RDONLY);
    try {
      await this.#files.call(() => folder.sync());
    } finally {
      await this.#files.close(folder);
    }
  }

  async #unlink(path: string): Promise<void> {
    await this.#files.call(() =>
      unlink(path).catch((error: NodeJS.ErrnoException) => {
        if (error.code !== 'ENOENT') throw error;
      }),
    );
  }
}

function nameOf({ taskId, epoch, seq }: CheckpointKey): string {
  return `${createHash('sha256').update(taskId).digest('hex')}-${epoch}-${seq}`;
}

const headOf = ({ taskId, epoch, seq }: CheckpointKey): Buffer =>
  Buffer.from(`${JSON.stringify({ taskId, epoch, seq })}\n`);

function readHead(line: string): CheckpointKey | null {
  try {
    const { taskId, epoch, seq } = JSON.parse(line) as Record<keyof CheckpointKey, unknown>;
    return { taskId: String(taskId), epoch: Number(epoch), seq: Number(seq) };
  } catch {
    return null;
  }
}

async function resolveFolder(folder: string, files: PatientFiles): Promise<string> {
  try {
    const root = await files.call(() => realpath(folder));
    if ((await files.call(() => stat(root))).isDirectory()) return root;
    throw new Error('it is not a folder');
  } catch (cause) {
    if (isUnavailable(cause)) throw cause;
    throw outlastError('ERR_OPTION_RANGE', {
      message: `\`worker.checkpointFolder\` is ${folder}: ${(cause as Error).message}`,
      hint: 'Name a folder that exists and that all workers and resurrectors share.',
      fields: { option: 'worker.checkpointFolder' },
      cause,
    });
  }
}
