import { access, mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { acquireFolderLock } from './folder-lock.ts';
import { openEmbedded } from './open-embedded.ts';

const UNAVAILABLE = { name: 'UnavailableError', code: 'ERR_STORE_UNAVAILABLE' };
const HELD = { name: 'ConfigError', code: 'ERR_FOLDER_HELD' };

describe('an embedded database', () => {
  let base: string;
  /** Created once, because that takes seconds; every test leaves it closed. */
  let folder: string;

  beforeAll(async () => {
    base = await mkdtemp(join(tmpdir(), 'outlast-embedded-'));
    folder = join(base, 'shared');
    const db = await openEmbedded(folder, { mode: 'own', createIfMissing: true });
    await db.query('create table t (id int primary key)');
    await db.close();
  });
  afterAll(async () => {
    await rm(base, { recursive: true, force: true });
  });

  it.each(['own', 'own-or-join'] as const)(
    'is not created by %s without leave, and the folder is not touched',
    async mode => {
      const missing = join(base, 'missing');
      await expect(openEmbedded(missing, { mode })).rejects.toMatchObject({
        name: 'ConfigError',
        code: 'ERR_SCHEMA_MISSING',
      });
      await expect(access(missing)).rejects.toMatchObject({ code: 'ENOENT' });
    },
  );

  it('cannot be joined when nobody holds it, and the hint names `outlast dev`', async () => {
    await expect(openEmbedded(folder, { mode: 'join' })).rejects.toMatchObject({
      ...UNAVAILABLE,
      hint: expect.stringContaining('outlast dev') as string,
    });
  });

  it('is shared by those who join its owner, and refused to a second owner', async () => {
    const owner = await openEmbedded(folder, { mode: 'own' });
    const guest = await openEmbedded(folder, { mode: 'join' });
    const command = await openEmbedded(folder, { mode: 'own-or-join' });
    expect([owner.pglite === null, guest.pglite, command.pglite]).toEqual([false, null, null]);
    await guest.query('insert into t values (1)');
    expect(await command.query('delete from t returning id')).toEqual([{ id: 1 }]);
    await expect(openEmbedded(folder, { mode: 'own' })).rejects.toMatchObject({
      ...HELD,
      pid: process.pid,
    });
    await Promise.all([guest.close(), command.close()]);
    await owner.close();
  });

  it('fails its guests when the owner leaves and serves them when it is back', async () => {
    const owner = await openEmbedded(folder, { mode: 'own' });
    const guest = await openEmbedded(folder, { mode: 'join' });
    await owner.close();
    await expect(guest.query('select 1')).rejects.toMatchObject(UNAVAILABLE);
    const next = await openEmbedded(folder, { mode: 'own' });
    expect(await guest.query('select 1 as one')).toEqual([{ one: 1 }]);
    await guest.close();
    await next.close();
  });

  it('closes while a guest has a transaction open, and rolls that back', async () => {
    const owner = await openEmbedded(folder, { mode: 'own' });
    const guest = await openEmbedded(folder, { mode: 'join' });
    const cut = guest.transaction(async tx => {
      await tx.query('insert into t values (2)');
      await owner.close();
      await tx.query('select 1');
    });
    await expect(cut).rejects.toMatchObject(UNAVAILABLE);
    await guest.close();
    const next = await openEmbedded(folder, { mode: 'own' });
    expect(await next.query('select * from t')).toEqual([]);
    await next.close();
  });

  it('is waited for by a command while another command has it', async () => {
    const first = await openEmbedded(folder, { mode: 'own-or-join' });
    const second = openEmbedded(folder, { mode: 'own-or-join' });
    await first.query('select 1');
    await first.close();
    await (await second).close();
  });

  it('is refused after the wait when its holder does not serve', async () => {
    const lock = await acquireFolderLock(folder);
    const options = { waitMs: 0 } as const;
    for (const mode of ['own', 'own-or-join'] as const) {
      await expect(openEmbedded(folder, { mode, ...options })).rejects.toMatchObject(HELD);
    }
    const joining = openEmbedded(folder, { mode: 'join', ...options });
    await expect(joining).rejects.toMatchObject(UNAVAILABLE);
    await lock.release();
  });

  it('keeps what was committed when it is opened again', async () => {
    const first = await openEmbedded(folder, { mode: 'own' });
    await first.query('insert into t values (3)');
    await first.close();
    await expect(first.query('select 1')).rejects.toMatchObject(UNAVAILABLE);
    const second = await openEmbedded(folder, { mode: 'own' });
    expect(await second.query('delete from t returning id')).toEqual([{ id: 3 }]);
    await second.close();
  });

  it('is created anew when its creation was interrupted', async () => {
    const broken = join(base, 'broken');
    await (await acquireFolderLock(broken)).release();
    await writeFile(join(broken, 'data.incomplete'), '');
    await mkdir(join(broken, 'data'));
    await writeFile(join(broken, 'data', 'PG_VERSION'), '18\n');
    await expect(openEmbedded(broken, { mode: 'own' })).rejects.toMatchObject({
      code: 'ERR_SCHEMA_MISSING',
    });
    const db = await openEmbedded(broken, { mode: 'own', createIfMissing: true });
    expect(await db.query('select 1 as one')).toEqual([{ one: 1 }]);
    await db.close();
  });

  it('gives the folder back when it cannot be opened', async () => {
    const foreign = join(base, 'foreign');
    await (await acquireFolderLock(foreign)).release();
    await mkdir(join(foreign, 'data'));
    await writeFile(join(foreign, 'data', 'PG_VERSION'), '12\n');
    await expect(openEmbedded(foreign, { mode: 'own' })).rejects.toMatchObject(UNAVAILABLE);
    await (await acquireFolderLock(foreign)).release();
  });
});
