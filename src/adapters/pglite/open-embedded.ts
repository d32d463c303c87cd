import type { PGlite } from '@electric-sql/pglite';
import { rm } from 'node:fs/promises';
import { forgetMemory, inOtherMemory, shareMemory } from '../../config/memory-folder.ts';
import { isOutlastError, isUnavailable } from '../../errors/error.ts';
import { type Clock, sleep, systemClock } from '../../runtime/runtime.ts';
import type { PostgresDatabase } from '../postgres/postgres-database.ts';
import { type Endpoint, storeUnavailable } from '../remote/wire.ts';
import { openRemoteDatabase } from '../remote/remote-database.ts';
import { serveDatabase } from '../remote/remote-server.ts';
import { readHolder } from './folder-lock.ts';
import { hasDatabase, noDatabase } from './open-data-folder.ts';
import { type PGliteDatabase, openPGliteDatabase } from './pglite-database.ts';

/**
 * - `own`: open the folder in this process and serve it to others; for `outlast dev` and for an
 *   application that keeps its own data there.
 * - `join`: connect to the process that has it open; for children of that process.
 * - `own-or-join`: join if a process serves it, else open it for a moment without serving; for
 *   commands.
 */
export type EmbeddedMode = 'own' | 'join' | 'own-or-join';

export interface EmbeddedOptions {
  readonly mode: EmbeddedMode;
  /** Whether `own` may create a new database. Workers and resurrectors never do. Default: false. */
  readonly createIfMissing?: boolean;
  /**
   * How long to wait for a holder that is starting, or for a command that will soon be done.
   * Default: 10 s.
   */
  readonly waitMs?: number;
  readonly clock?: Clock;
  /** It is in the memory of the process that opens it; the folder is where that is found. */
  readonly isInMemory?: boolean;
}

export interface EmbeddedDatabase extends PostgresDatabase {
  /** The raw handle when the database is open in this process, else null. */
  readonly pglite: PGlite | null;
}

const DEFAULT_WAIT_MS = 10_000;
const POLL_MS = 50;

/** Opens the embedded database of a folder, here or through the process that holds it. */
export async function openEmbedded(
  folder: string,
  options: EmbeddedOptions,
): Promise<EmbeddedDatabase> {
  const clock = options.clock ?? systemClock;
  const deadline = clock.monotonic() + (options.waitMs ?? DEFAULT_WAIT_MS);
  for (;;) {
    const attempt = await tryOnce(folder, options, clock);
    if ('database' in attempt) return attempt.database;
    if (clock.monotonic() >= deadline) throw attempt.obstacle;
    await sleep(clock, POLL_MS);
  }
}

/** An obstacle may disappear by itself; one that cannot is thrown. */
type Attempt = { readonly database: EmbeddedDatabase } | { readonly obstacle: unknown };

/**
 * | holder        | own             | join             | own-or-join      |
 * |---------------|-----------------|------------------|------------------|
 * | none          | open            | refuse           | open             |
 * | not serving   | wait, refuse    | wait, refuse     | wait, refuse     |
 * | serving       | refuse          | connect          | connect          |
 */
async function tryOnce(folder: string, options: EmbeddedOptions, clock: Clock): Promise<Attempt> {
  const holder = await readHolder(folder);
  const isServed = holder !== null && holder.endpoint !== null;
  const makes = options.mode !== 'join' && options.createIfMissing === true;
  if (options.isInMemory === true && holder === null && !makes) throw inOtherMemory();
  try {
    if (options.mode === 'join' || (options.mode === 'own-or-join' && isServed)) {
      return { database: await join(folder, clock) };
    }
    return { database: await own(folder, options, clock) };
  } catch (error) {
    // Another process was quicker, or the holder is starting or stopping. A holder that serves is there
    // to stay.
    const isHeld = isOutlastError(error, 'ERR_FOLDER_HELD') && !isServed;
    if (isHeld || (holder !== null && isUnavailable(error))) return { obstacle: error };
    throw error;
  }
}

async function own(
  folder: string,
  options: EmbeddedOptions,
  clock: Clock,
): Promise<EmbeddedDatabase> {
  if (options.isInMemory === true) {
    const memory = await openPGliteDatabase({ memory: true, meeting: folder }, { clock });
    const open = options.mode === 'own' ? await serve(memory, clock) : memory;
    if (options.mode === 'own') shareMemory(folder);
    return leavingNothing(open, folder);
  }
  const createIfMissing = options.createIfMissing === true;
  // Checked before the folder is touched: a refused command should not leave one behind.
  if (!createIfMissing && (await isUnused(folder))) throw noDatabase(folder);
  const database = await openPGliteDatabase(folder, { clock, createIfMissing });
  return options.mode === 'own' ? await serve(database, clock) : database;
}

async function isUnused(folder: string): Promise<boolean> {
  return !(await hasDatabase(folder)) && (await readHolder(folder)) === null;
}

/** The folder of the lock goes with the database. */
function leavingNothing(database: EmbeddedDatabase, folder: string): EmbeddedDatabase {
  return {
    pglite: database.pglite,
    query: (text, params) => database.query(text, params),
    transaction: fn => database.transaction(fn),
    listen: (channel, hint) => database.listen(channel, hint),
    close: async () => {
      await database.close();
      forgetMemory();
      await rm(folder, { recursive: true, force: true });
    },
  };
}

async function serve(database: PGliteDatabase, clock: Clock): Promise<EmbeddedDatabase> {
  const server = await serveDatabase(database, { clock });
  const close = async (): Promise<void> => {
    // Clients first: their open transactions would keep the database from closing.
    await server.close();
    await database.close();
  };
  try {
    await database.lock?.publishEndpoint({ port: server.port, token: server.token });
  } catch (error) {
    await close();
    throw error;
  }
  return {
    pglite: database.pglite,
    query: (text, params) => database.query(text, params),
    transaction: fn => database.transaction(fn),
    listen: (channel, hint) => database.listen(channel, hint),
    close,
  };
}

/** Reads the endpoint before every connection: the holder may have changed by then. */
async function join(folder: string, clock: Clock): Promise<EmbeddedDatabase> {
  const findEndpoint = async (): Promise<Endpoint> => {
    const holder = await readHolder(folder);
    const endpoint = holder?.endpoint ?? null;
    if (endpoint === null) throw nobodyServes(folder);
    return endpoint;
  };
  const remote = openRemoteDatabase(findEndpoint, { clock });
  try {
    await remote.query('select 1', []);
  } catch (error) {
    await remote.close();
    throw error;
  }
  return {
    pglite: null,
    query: (text, params) => remote.query(text, params),
    transaction: fn => remote.transaction(fn),
    listen: (channel, hint) => remote.listen(channel, hint),
    close: () => remote.close(),
  };
}

function nobodyServes(folder: string): Error {
  return storeUnavailable(
    `No running process serves the embedded database in ${folder}.`,
    'Start it with `outlast dev`, or set OUTLAST_DATABASE_URL to a PostgreSQL server.',
  );
}
