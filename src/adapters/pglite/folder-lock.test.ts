import { mkdtemp, readdir, readFile, rm, stat, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, describe, expect, it, onTestFinished, vi } from 'vitest';
import { acquireFolderLock, readHolder } from './folder-lock.ts';
import { LockFiles } from './lock-files.ts';
import type { LockRecord } from './lock-record.ts';
import { identifyThisProcess, type ProcessIdentity } from './process-identity.ts';

const HELD = { name: 'ConfigError', code: 'ERR_FOLDER_HELD' };

describe('the lock of a folder', () => {
  afterEach(() => {
    vi.restoreAllMocks();
  });

  async function setup(): Promise<string> {
    const base = await mkdtemp(join(tmpdir(), 'outlast-lock-'));
    onTestFinished(() => rm(base, { recursive: true, force: true }));
    return join(base, 'db');
  }

  /** A folder that this process holds, with some facts about the holder changed. */
  async function setupHeldBy(changes: Partial<ProcessIdentity>): Promise<string> {
    const folder = await setup();
    await acquireFolderLock(folder);
    const holder = { ...(await identifyThisProcess()), ...changes };
    const record: LockRecord = { state: 'held', holder, endpoint: { port: 1, token: 'secret' } };
    await writeFile(join(folder, 'lock.1'), JSON.stringify(record));
    return folder;
  }

  async function lockFilesIn(folder: string): Promise<string[]> {
    return (await readdir(folder)).sort();
  }

  it('creates a missing folder and a lock file that only their owner can read', async () => {
    const folder = await setup();
    await acquireFolderLock(folder);
    expect((await stat(folder)).mode & 0o777).toBe(0o700);
    expect((await stat(join(folder, 'lock.1'))).mode & 0o777).toBe(0o600);
  });

  it('refuses a second holder, also in the same process, and names the first', async () => {
    const folder = await setup();
    await acquireFolderLock(folder);
    await expect(acquireFolderLock(folder)).rejects.toMatchObject({
      ...HELD,
      folder,
      pid: process.pid,
    });
  });

  it('is free after a release, and an old lock cannot take it back', async () => {
    const folder = await setup();
    const first = await acquireFolderLock(folder);
    await Promise.all([first.release(), first.release()]);
    const second = await acquireFolderLock(folder);
    await first.publishEndpoint({ port: 1, token: 'old' });
    await first.release();
    await second.publishEndpoint({ port: 2, token: 'new' });
    expect(await readHolder(folder)).toEqual({
      pid: process.pid,
      endpoint: { port: 2, token: 'new' },
    });
    await expect(acquireFolderLock(folder)).rejects.toMatchObject(HELD);
  });

  it('keeps one lock file, however often it is acquired', async () => {
    const folder = await setup();
    for (let i = 0; i < 5; i++) await (await acquireFolderLock(folder)).release();
    expect(await lockFilesIn(folder)).toEqual(['lock.5', 'lock.generation']);
  });

  it('names no holder of a folder that is missing, empty or released', async () => {
    const folder = await setup();
    expect(await readHolder(folder)).toBeNull();
    await (await acquireFolderLock(folder)).release();
    expect(await readHolder(folder)).toBeNull();
  });

  it('shows the endpoint of the holder once it is published', async () => {
    const folder = await setup();
    const lock = await acquireFolderLock(folder);
    expect(await readHolder(folder)).toEqual({ pid: process.pid, endpoint: null });
    await lock.publishEndpoint({ port: 5, token: 'abc' });
    expect(await readHolder(folder)).toEqual({
      pid: process.pid,
      endpoint: { port: 5, token: 'abc' },
    });
  });

  it('is free when another process has the pid of its dead holder', async () => {
    const folder = await setupHeldBy({ startTicks: '1' });
    expect(await readHolder(folder)).toBeNull();
    await acquireFolderLock(folder);
    expect(await lockFilesIn(folder)).toEqual(['lock.2', 'lock.generation']);
  });

  it('is free after a reboot of the same machine', async () => {
    const folder = await setupHeldBy({ bootId: 'an earlier boot' });
    await acquireFolderLock(folder);
  });

  it('stays held by a process on another machine, and the hint names the file to delete', async () => {
    const folder = await setupHeldBy({ bootId: 'of another machine', host: 'elsewhere' });
    await expect(acquireFolderLock(folder)).rejects.toMatchObject({
      ...HELD,
      hint: expect.stringContaining(join(folder, 'lock.1')) as string,
    });
    await rm(join(folder, 'lock.1'));
    await acquireFolderLock(folder);
  });

  it('stays held by a process in another container, whose pid has no meaning here', async () => {
    const folder = await setupHeldBy({ pidNamespace: 'pid:[1]', pid: 2 ** 22 - 1 });
    await expect(acquireFolderLock(folder)).rejects.toMatchObject(HELD);
  });

  it.each(['', '{"state":"held"', '{}', '{"state":"held","holder":{"pid":-1}}'])(
    'counts as held when its file contains %j',
    async text => {
      const folder = await setup();
      await (await acquireFolderLock(folder)).release();
      await writeFile(join(folder, 'lock.1'), text);
      await expect(acquireFolderLock(folder)).rejects.toMatchObject({ ...HELD, pid: 0 });
      expect(await readHolder(folder)).toEqual({ pid: 0, endpoint: null });
    },
  );

  it('goes to one of two processes that saw it free', async () => {
    const folder = await setup();
    await (await acquireFolderLock(folder)).release();
    const outcomes = await Promise.allSettled([
      acquireFolderLock(folder),
      acquireFolderLock(folder),
    ]);
    expect(outcomes.map(({ status }) => status).sort()).toEqual(['fulfilled', 'rejected']);
  });

  it('is refused to a process that slept while its generation was acquired and removed', async () => {
    const folder = await setup();
    await (await acquireFolderLock(folder)).release();
    vi.spyOn(LockFiles.prototype, 'create').mockImplementationOnce(async (generation, record) => {
      // After the sleeper has read lock.1 and before it creates lock.2, other processes create and
      // remove lock.2 and hold lock.3.
      await (await acquireFolderLock(folder)).release();
      await acquireFolderLock(folder);
      expect(await lockFilesIn(folder)).not.toContain('lock.2');
      return await new LockFiles(folder).create(generation, record);
    });
    await expect(acquireFolderLock(folder)).rejects.toMatchObject(HELD);
    expect(await lockFilesIn(folder)).toEqual(['lock.3', 'lock.generation']);
  });

  it('is refused to a process that overlooked the newest lock file', async () => {
    const folder = await setup();
    await (await acquireFolderLock(folder)).release();
    const stale = await new LockFiles(folder).top();
    await (await acquireFolderLock(folder)).release();
    await acquireFolderLock(folder);
    vi.spyOn(LockFiles.prototype, 'top').mockResolvedValueOnce(stale);
    await expect(acquireFolderLock(folder)).rejects.toMatchObject(HELD);
  });

  it('does not stay held when acquiring it fails halfway', async () => {
    const folder = await setup();
    vi.spyOn(LockFiles.prototype, 'settleGeneration').mockRejectedValueOnce(new Error('disk full'));
    await expect(acquireFolderLock(folder)).rejects.toThrow('disk full');
    await acquireFolderLock(folder);
  });

  it('removes the token from its file when it is released', async () => {
    const folder = await setup();
    const lock = await acquireFolderLock(folder);
    await lock.publishEndpoint({ port: 5, token: 'secret' });
    await lock.release();
    expect(await readFile(join(folder, 'lock.1'), 'utf8')).not.toContain('secret');
  });
});
