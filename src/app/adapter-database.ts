import { join, resolve } from 'node:path';
import { DIALECTS } from '../adapters/dialects.ts';
import type { DialectRow } from '../adapters/sql/dialect.ts';
import type { OutboxTarget } from '../config/database-target.ts';
import { isEmbedded } from '../config/database-url.ts';
import { maskUrl } from '../errors/mask-secrets.ts';
import { outlastError } from '../errors/error.ts';
import { mismatch, SameDatabase } from '../outbox/same-database.ts';
import type { Comparison, TransactionAdapter } from '../outbox/transaction-adapter.ts';
import type { Context } from '../context/context.ts';
import { openDatabase } from '../context/openers.ts';

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
