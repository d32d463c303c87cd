import { type PGliteDatabase } from '../../../src/adapters/pglite/pglite-database.ts';
import { openEmbeddedDatabase } from '../embedded.ts';

const opened = new Map<string, Promise<PGliteDatabase>>();

/** A toy is a PGlite in memory: all that open the same folder get the same one, and `closeToys` ends it. */
export async function openToy(folder: string): Promise<PGliteDatabase> {
  const toy = opened.get(folder) ?? openEmbeddedDatabase();
  opened.set(folder, toy);
  return await toy;
}

export async function closeToys(): Promise<void> {
  for (const toy of opened.values()) await (await toy).close();
  opened.clear();
}
