import { join, resolve } from 'node:path';
import { DIALECTS } from '../adapters/dialects.ts';
import type { Dialect, DialectRow, WriterOptions } from '../adapters/sql/dialect.ts';
import type { OutboxTarget } from '../config/database-target.ts';
import { isEmbedded } from '../config/database-url.ts';
import { maskUrl } from '../errors/mask-secrets.ts';
import { outlastError } from '../errors/error.ts';
import { SameDatabase, mismatch } from '../outbox/inside-transaction.ts';
import type { Comparison, Executor, TransactionAdapter } from '../outbox/transaction-adapter.ts';
import type { Context } from '../context/context.ts';
import { openDatabase } from '../context/openers.ts';
import type { OutboxWriter } from '../outbox/outbox-writer.ts';
import type { DoorParts, EffectDoor } from '../worker/effects/door.ts';
import { EffectOnceDoor } from '../worker/effects/effect-once-door.ts';

/** The first send of a process waits for the comparison, so it must be short. */
const COMPARE_TIMEOUT_MS = 5_000;

/**
 * Makes sure that a library writes tasks where relays, results and operators look for them. A mismatch that is visible at
 * once is refused at once; two servers are compared at the first send. Null: there is nothing left to compare.
 */
export function compareDatabases<Tx>(
  adapter: TransactionAdapter<Tx>,
  context: Context,
): SameDatabase<Tx> | null {
  const { config, outbox, runtime, log } = context;
  const target = outbox?.target ?? config.database;
  const option = outbox === null ? 'database' : `outboxes.${outbox.name}.database`;
  const configured = { option, url: maskUrl(target.url) };
  const { location } = adapter;
  if (typeof location === 'object') {
    if (isEmbedded(target) && isFolderOf(target.folder, location.folder)) return null;
    throw mismatch(location.folder ?? 'a PGlite in memory', configured);
  }
  if (config.settings['database']?.source === 'default') throw unnamed();
  if (isEmbedded(target)) {
    if (location === 'server') throw mismatch('a server', configured);
    return null;
  }
  const compare = (tx: Tx): Promise<Comparison> => ask(tx, adapter, target);
  return new SameDatabase({ compare, configured, clock: runtime.clock, log });
}

/** The same adapter, but its own transactions run the comparison before anything else. */
export function comparing<Tx>(
  adapter: TransactionAdapter<Tx>,
  sameDatabase: SameDatabase<Tx> | null,
): TransactionAdapter<Tx> {
  if (sameDatabase === null) return adapter;
  return {
    dialect: adapter.dialect,
    endsIdleTransactions: adapter.endsIdleTransactions,
    execute: (tx, text, values) => adapter.execute(tx, text, values),
    status: tx => adapter.status(tx),
    transaction: (fn, leave) =>
      adapter.transaction(async tx => {
        const asking = sameDatabase.check(tx);
        if (asking !== null) await asking;
        return await fn(tx);
      }, leave),
  };
}

async function ask<Tx>(
  tx: Tx,
  adapter: TransactionAdapter<Tx>,
  target: OutboxTarget,
): Promise<Comparison> {
  const own = await openDatabase(target, {
    embedded: 'existing',
    poolSize: 1,
    queryTimeoutMs: COMPARE_TIMEOUT_MS,
  });
  try {
    return await own.compare(tx, adapter);
  } finally {
    await own.close();
  }
}

/** Tasks written through one database and looked for in another would never be found. */
export function refuseOtherDialect(spoken: string, { language, title }: DialectRow): void {
  if (spoken === language) return;
  throw outlastError('ERR_CONFIG_TIER', {
    message: `the adapter is for ${titleOf(spoken)}, and this outbox is in ${title}`,
    hint: 'Give createOutlast an adapter on the database of its outbox; `outbox` names one of `outboxes`.',
    fields: { option: 'adapter' },
  });
}

const titleOf = (language: string): string =>
  Object.values(DIALECTS).find(row => row.language === language)?.title ?? language;

/** `data` in the folder is where the files are. */
const isFolderOf = (folder: string, found: string | null): boolean =>
  found !== null && resolve(found) === join(folder, 'data');

function unnamed(): Error {
  return outlastError('ERR_CONFIG_TIER', {
    message:
      'an adapter is given and no `database` is named: tasks would be sent to the one and looked for in the other',
    hint: 'Set OUTLAST_DATABASE_URL, or `database`, to the URL of the database that the adapter is on.',
    fields: { option: 'database' },
  });
}

/** A dialect that is loaded when it is first needed: to make an instance waits for nothing. */
export type LateDialect = () => Promise<Dialect>;

/** Writes through a library in the words of its database. */
export function lateWriter<Tx>(
  load: LateDialect,
  executor: Executor<Tx>,
  options: WriterOptions,
): OutboxWriter<Tx> {
  const writer = once(async () => (await load()).writer(executor, options));
  // Loaded now: a first send that waited for it would reach the connection after what its caller runs next.
  writer(() => Promise.resolve()).catch(() => undefined);
  return {
    write: (tx, tasks, ready) => writer(one => one.write(tx, tasks, ready)),
    isInTransaction: tx => writer(one => one.isInTransaction(tx)),
    ...(options.target === 'ledger' && {
      cancel: (tx: Tx, id: string) => writer(async one => await one.cancel?.(tx, id)),
    }),
    noteChords: (tx, chords) => writer(async one => await one.noteChords?.(tx, chords)),
  };
}

/** The door to the effects of an instance: where its database is the ledger's, the task row is the fence. */
export function lateDoor<Tx>(
  load: LateDialect,
  adapter: TransactionAdapter<Tx>,
  { ledger, faultPoint, isLedgerHere }: DoorParts & { readonly isLedgerHere: boolean },
): EffectDoor<Tx> {
  const door = once(async () => {
    const fences = (await load()).fences(adapter, isLedgerHere);
    return new EffectOnceDoor({ fences, ledger: isLedgerHere ? null : ledger, faultPoint });
  });
  return {
    locksTask: isLedgerHere,
    pass: (run, step, fn) => door(one => one.pass(run, step, fn)),
    fence: run => door(one => one.fence(run)),
  };
}

/** Uses what is made with the first call; from then on nothing is waited for. */
function once<One>(make: () => Promise<One>): <T>(use: (one: One) => Promise<T>) => Promise<T> {
  let made: One | undefined;
  let making: Promise<One> | undefined;
  return async use => {
    making ??= make();
    made ??= await making;
    return await use(made);
  };
}
