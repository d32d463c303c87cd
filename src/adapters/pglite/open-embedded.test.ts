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
    'is not created in mode %s without createIfMissing, and the folder is not touched',
    async mode => {
      const missing = join(base, 'missing');
      await expect(openEmbedded(missing, { mode })).rejects.toMatchObject({
        name: 'ConfigError',
        code: 'ERR_SCHEMA_MISSING',
      });
      await expect(access(missing)).rejects.toMatchObject({ code: 'ENOENT' });
    },
  );

  it('cannot be joined while no process holds it, and the hint names `outlast dev`', async () => {
    await expect(openEmbedded(folder, { mode: 'join' })).rejects.toMatchObject({
      ...UNAVAILABLE,
      hint: expect.stringContaining('outlast dev') as string,
    });
  });

  it('is shared by processes that join its owner, and refused to a second owner', async () => {
    const owner = await openEmbedded(folder, { mode: 'own' });
    const client = await openEmbedded(folder, { mode: 'join' });
    const command = await openEmbedded(folder, { mode: 'own-or-join' });
    expect([owner.pglite === null, client.pglite, command.pglite]).toEqual([false, null, null]);
    await client.query('insert into t values (1)');
    expect(await command.query('delete from t returning id')).toEqual([{ id: 1 }]);
    await expect(openEmbedded(folder, { mode: 'own' })).rejects.toMatchObject({
      ...HELD,
      pid: process.pid,
    });
    await Promise.all([client.close(), command.close()]);
    await owner.close();
  });

  it('rejects calls of its clients while it has no owner, and serves them under the next owner', async () => {
    const owner = await openEmbedded(folder, { mode: 'own' });
    const client = await openEmbedded(folder, { mode: 'join' });
    await owner.close();
    await expect(client.query('select 1')).rejects.toMatchObject(UNAVAILABLE);
    const next = await openEmbedded(folder, { mode: 'own' });
    expect(await client.query('select 1 as one')).toEqual([{ one: 1 }]);
    await client.close();
    await next.close();
  });

  it('closes while a client has an open transaction, and rolls it back', async () => {
    const owner = await openEmbedded(folder, { mode: 'own' });
    const client = await openEmbedded(folder, { mode: 'join' });
    const cut = client.transaction(async tx => {
      await tx.query('insert into t values (2)');
      await owner.close();
      await tx.query('select 1');
    });
    await expect(cut).rejects.toMatchObject(UNAVAILABLE);
    await client.close();
    const next = await openEmbedded(folder, { mode: 'own' });
    expect(await next.query('select * from t')).toEqual([]);
    await next.close();
  });

  it('makes a command wait while another command has it open', async () => {
    const first = await openEmbedded(folder, { mode: 'own-or-join' });
    const second = openEmbedded(folder, { mode: 'own-or-join' });
    await first.query('select 1');
    await first.close();
    await (await second).close();
  });

  it('is refused after the wait when its holder serves no clients', async () => {
    const lock = await acquireFolderLock(folder);
    const options = { waitMs: 0 } as const;
    for (const mode of ['own', 'own-or-join'] as const) {
      await expect(openEmbedded(folder, { mode, ...options })).rejects.toMatchObject(HELD);
    }
    const joining = openEmbedded(folder, { mode: 'join', ...options });
    await expect(joining).rejects.toMatchObject(UNAVAILABLE);
    await lock.release();
  });

  it('keeps committed rows when it is opened again', async () => {
    const first = await openEmbedded(folder, { mode: 'own' });
    await first.query('insert into t values (3)');
    await first.close();
    await expect(first.query('select 1')).rejects.toMatchObject(UNAVAILABLE);
    const second = await openEmbedded(folder, { mode: 'own' });
    expect(await second.query('delete from t returning id')).toEqual([{ id: 3 }]);
    await second.close();
  });

  it('is created again when its creation was interrupted', async () => {
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

  it('releases the folder lock when it cannot be opened', async () => {
    const foreign = join(base, 'foreign');
    await (await acquireFolderLock(foreign)).release();
    await mkdir(join(foreign, 'data'));
    await writeFile(join(foreign, 'data', 'PG_VERSION'), '12\n');
    await expect(openEmbedded(foreign, { mode: 'own' })).rejects.toMatchObject(UNAVAILABLE);
    await (await acquireFolderLock(foreign)).release();
  });
});
