import { dialect as postgres, postgresDatabase, textsIn } from '../postgres/dialect.ts';
import type { Dialect, EmbeddedAccess } from '../sql/dialect.ts';
import { openEmbedded, type EmbeddedMode } from './open-embedded.ts';

const EMBEDDED: Readonly<
  Record<EmbeddedAccess, { readonly mode: EmbeddedMode; readonly createIfMissing: boolean }>
> = {
  create: { mode: 'own-or-join', createIfMissing: true },
  existing: { mode: 'own-or-join', createIfMissing: false },
  join: { mode: 'join', createIfMissing: false },
  own: { mode: 'own', createIfMissing: true },
};

/** PostgreSQL in a folder: opened another way, and the same from there on. */
export const dialect: Dialect = {
  ...postgres,
  open: async ({ folder = '' }, { embedded }) =>
    postgresDatabase(await openEmbedded(folder, EMBEDDED[embedded]), { isEmbedded: true }),
  inSchema: schema => ({
    ...textsIn(schema),
    open: async ({ folder = '' }, { embedded }) => {
      const db = await openEmbedded(folder, EMBEDDED[embedded]);
      return postgresDatabase(db, { isEmbedded: true, schema });
    },
  }),
};
