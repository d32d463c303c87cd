import type { PGlite } from '@electric-sql/pglite';
import { access, mkdir, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { outlastError } from '../../errors/error.ts';
import { storeUnavailable } from '../remote/wire.ts';
import type { PGliteModule } from './load-pglite.ts';
import { BYTEA_CODEC } from './run-statement.ts';

/** Whether a folder has an embedded database that was created completely. */
export async function hasDatabase(folder: string): Promise<boolean> {
  return (await exists(versionFile(folder))) && !(await exists(creationMark(folder)));
}

/**
 * Opens the database of a folder whose lock the caller holds, creating it when there is none. The
 * creation takes seconds. A process killed half-way leaves a mark, and the next one begins
 * again: no process can have written to a database whose mark still exists.
 */
export async function openDataFolder(
  { PGlite: driver }: PGliteModule,
  folder: string,
  createIfMissing: boolean,
): Promise<PGlite> {
  const data = join(folder, 'data');
  const isNew = !(await hasDatabase(folder));
  if (isNew && !createIfMissing) throw noDatabase(folder);
  if (isNew) {
    if (await exists(creationMark(folder))) await rm(data, { recursive: true, force: true });
    await writeFile(creationMark(folder), '');
    await mkdir(data, { recursive: true, mode: 0o700 });
  }
  const pglite = await driver.create({ ...BYTEA_CODEC, dataDir: data }).catch((error: unknown) => {
    throw cannotOpen(data, error);
  });
  if (isNew) await rm(creationMark(folder));
  return pglite;
}

function versionFile(folder: string): string {
  return join(folder, 'data', 'PG_VERSION');
}

function creationMark(folder: string): string {
  return join(folder, 'data.incomplete');
}

async function exists(path: string): Promise<boolean> {
  try {
    await access(path);
    return true;
  } catch {
    return false;
  }
}

export function noDatabase(folder: string): Error {
  return outlastError('ERR_SCHEMA_MISSING', {
    message: `There is no embedded database in ${folder}.`,
    hint: 'Create it with `outlast dev`, or set OUTLAST_DATABASE_URL to a PostgreSQL server.',
    fields: {},
  });
}

function cannotOpen(data: string, cause: unknown): Error {
  return storeUnavailable(
    `The embedded database in ${data} cannot be opened.`,
    'It may be of another major version of @electric-sql/pglite: use that one, or move it away.',
    cause,
  );
}
