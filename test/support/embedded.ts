import { cpSync, existsSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import {
  type PGliteDatabase,
  type PGliteDatabaseOptions,
  openPGliteDatabase,
} from '../../src/adapters/pglite/pglite-database.ts';

/**
 * A folder with an embedded database that `npm test` has created once: to create one takes five seconds of a processor, to
 * copy one half a second. Tests that are run by hand without it create theirs.
 */
const TEMPLATE = process.env['OUTLAST_TEST_EMBEDDED'];

/** Makes a folder look as if a process had created the embedded database there. */
export function placeEmbedded(folder: string): void {
  if (TEMPLATE === undefined || existsSync(join(folder, 'data'))) return;
  cpSync(TEMPLATE, folder, { recursive: true });
}

/** An empty embedded database in a folder of its own, which goes when it is closed. */
export async function openEmbeddedDatabase(
  options: PGliteDatabaseOptions = {},
): Promise<PGliteDatabase> {
  const folder = mkdtempSync(join(tmpdir(), 'outlast-embedded-'));
  const remove = (): void => rmSync(folder, { recursive: true, force: true });
  try {
    placeEmbedded(folder);
    const database = await openPGliteDatabase(folder, options);
    const close = database.close.bind(database);
    database.close = () => close().finally(remove);
    return database;
  } catch (error) {
    remove();
    throw error;
  }
}
