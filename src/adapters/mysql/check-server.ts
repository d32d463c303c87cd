import { outlastError } from '../../errors/error.ts';

/** The first versions with SKIP LOCKED. */
const FIRST = { MariaDB: [10, 6, 0], MySQL: [8, 0, 1] } as const;

/** Refuses a server on which two relays would wait for each other, or take the same rows. */
export function refuseOldServer(version: string): void {
  const kind = /mariadb/i.test(version) ? 'MariaDB' : 'MySQL';
  const found = (/^\d+\.\d+\.\d+/.exec(version)?.[0] ?? '0.0.0').split('.').map(Number);
  const needed = FIRST[kind];
  const differs = needed.findIndex((part, place) => found[place] !== part);
  if (differs === -1 || (found[differs] ?? 0) > (needed[differs] ?? 0)) return;
  throw outlastError('ERR_CONFIG_TIER', {
    message: `the server is ${kind} ${version}, which has no SKIP LOCKED: relays would wait for each other`,
    hint: `Use ${kind} ${needed.join('.')} or later.`,
    fields: { option: 'database' },
  });
}
