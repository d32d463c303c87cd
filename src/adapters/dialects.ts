import type { DialectRow } from './sql/dialect.ts';

/** Every SQL database: a folder beside this file, and a row here. */
export const DIALECTS: Readonly<Record<string, DialectRow>> = {
  postgres: {
    title: 'PostgreSQL',
    schemes: ['postgres', 'postgresql'],
    location: 'server',
    canBeLedger: true,
    language: 'postgres',
    hasSchemas: true,
    load: () => import('./postgres/dialect.ts'),
  },
  pglite: {
    title: 'PGlite',
    schemes: ['pglite'],
    location: 'folder',
    canBeLedger: true,
    language: 'postgres',
    hasSchemas: true,
    load: () => import('./pglite/dialect.ts'),
  },
  mysql: {
    title: 'MySQL or MariaDB',
    schemes: ['mysql', 'mariadb'],
    location: 'named-server',
    canBeLedger: false,
    language: 'mysql',
    load: () => import('./mysql/dialect.ts'),
  },
};
