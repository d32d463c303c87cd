import {
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  symlinkSync,
  utimesSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { execFileSync } from 'node:child_process';
import { open } from 'node:fs/promises';
import { afterAll, expect, it } from 'vitest';
import { describeCheckpointStore } from '../../../test/conformance/checkpoint-store.ts';
import { FolderCheckpointStore } from './folder-checkpoint-store.ts';

const folders: string[] = [];
const makeFolder = (): string => {
  const folder = mkdtempSync(join(tmpdir(), 'outlast-checkpoints-'));
  folders.push(folder);
  return folder;
};
afterAll(() => folders.forEach(folder => rmSync(folder, { recursive: true })));

const shared = new FolderCheckpointStore(makeFolder());
describeCheckpointStore('folder', () => shared);

it('does not follow a symbolic link that replaced a checkpoint file, neither on read nor on write', async () => {
  const folder = makeFolder();
  const store = new FolderCheckpointStore(folder);
  const key = { taskId: 'one', epoch: 1, seq: 1 };
  await store.write(key, Buffer.from('abc'));
  const [name = ''] = readdirSync(folder);
  const secret = join(makeFolder(), 'secret');
  writeFileSync(secret, '{"taskId":"one","epoch":1,"seq":1}\nabc');
  rmSync(join(folder, name));
  symlinkSync(secret, join(folder, name));
  expect(await store.read(key, 3)).toBeNull();
  await store.write(key, Buffer.from('xyz'));
  expect(String(await store.read(key, 3))).toBe('xyz');
});

it('deletes its own unfinished files when they are old, and no other files', async () => {
  const folder = makeFolder();
  const store = new FolderCheckpointStore(folder);
  await store.write({ taskId: 'one', epoch: 1, seq: 1 }, Buffer.from('abc'));
  const [name = ''] = readdirSync(folder);
  const [left, theirs] = [`.${name}.0123456789abcdef.tmp`, 'notes.txt'];
  for (const file of [left, theirs]) {
    writeFileSync(join(folder, file), '');
    utimesSync(join(folder, file), 1, 1);
  }
  expect(await store.list(3_600_000, 10, null)).toEqual([]);
  expect(readdirSync(folder).sort()).toEqual([name, theirs].sort());
});

it('refuses a folder that does not exist, and names the option', async () => {
  const store = new FolderCheckpointStore(join(makeFolder(), 'missing'));
  await expect(store.check()).rejects.toMatchObject({
    code: 'ERR_OPTION_RANGE',
    option: 'worker.checkpointFolder',
  });
});

it('gives up a call that hangs, starts no others meanwhile, and goes on when it comes back', async () => {
  const folder = makeFolder();
  const store = new FolderCheckpointStore(folder, 500);
  const key = { taskId: 'one', epoch: 1, seq: 1 };
  await new FolderCheckpointStore(folder).write(key, Buffer.from('abc'));
  const [name = ''] = readdirSync(folder);
  const file = join(folder, name);
  const bytes = readFileSync(file);
  // To open a pipe without a writer takes for ever, as anything does on a network that is away.
  rmSync(file);
  execFileSync('mkfifo', [file]);
  const away = { code: 'ERR_STORE_UNAVAILABLE' };
  const readings = await Promise.allSettled([1, 2, 3, 4, 5].map(() => store.read(key, 3)));
  for (const reading of readings)
    expect(reading).toMatchObject({ status: 'rejected', reason: away });
  await expect(store.write({ ...key, seq: 2 }, Buffer.from('x'))).rejects.toMatchObject(away);
  await expect(store.list(0, 10, null)).rejects.toMatchObject(away);
  expect(readdirSync(folder)).toEqual([name]);
  const writer = await open(file, 'w');
  await writer.close();
  rmSync(file);
  writeFileSync(file, bytes);
  await expect
    .poll(() => store.read(key, 3).then(String, () => null), { timeout: 20_000 })
    .toBe('abc');
});
