import { dialect as postgres, postgresDatabase, textsIn } from '../postgres/dialect.ts';
import type { Dialect, EmbeddedAccess } from '../sql/dialect.ts';
import type { OutboxTarget } from '../../config/database-target.ts';
import { isInMemory } from '../../config/memory-folder.ts';
import { type EmbeddedDatabase, openEmbedded, type EmbeddedMode } from './open-embedded.ts';

const EMBEDDED: Readonly<
  Record<EmbeddedAccess, { readonly mode: EmbeddedMode; readonly createIfMissing: boolean }>
> = {
  create: { mode: 'own-or-join', createIfMissing: true },
  existing: { mode: 'own-or-join', createIfMissing: false },
  join: { mode: 'join', createIfMissing: false },
  own: { mode: 'own', createIfMissing: true },
};

const openTarget = async (
  target: OutboxTarget,
  embedded: EmbeddedAccess,
): Promise<EmbeddedDatabase> =>
  await openEmbedded(target.folder ?? '', {
    ...EMBEDDED[embedded],
    isInMemory: isInMemory(target),
  });

/** PostgreSQL in a folder: opened another way, and the same from there on. */
export const dialect: Dialect = {
  ...postgres,
  open: async (target, { embedded }) =>
    postgresDatabase(await openTarget(target, embedded), { isEmbedded: true }),
  inSchema: schema => ({
    ...textsIn(schema),
    open: async (target, { embedded }) => {
      const db = await openTarget(target, embedded);
      return postgresDatabase(db, { isEmbedded: true, schema });
    },
  }),
};
