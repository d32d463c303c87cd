import type { Executor, TransactionAdapter } from '../../outbox/transaction-adapter.ts';
import type { SqlRunner } from '../sql/sql-database.ts';
import type { PostgresDatabase } from './postgres-database.ts';

/**
 * Every name of ours in a statement, but where PostgreSQL takes none with a schema: indexes, constraints and triggers
 * where they are made, new names, and names that are quoted.
 */
const NAMES =
  /(?<!["\w]|\bcreate (?:unique )?index (?:concurrently )?(?:if not exists )?|\b(?:constraint|trigger) (?:if exists )?|\brename to )\boutlast_\w+/g;
/** Channels belong to the whole database. */
const CHANNELS = /(?<=\bpg_notify\(')outlast_\w+/g;

/**
 * Puts the tables, functions and channels of our statements into a schema. The names are in the text, because a
 * `search_path` would be lost behind a pooler, and in a transaction of the user it is the user's.
 *
 * Only for statements of ours: one of the user's may have the same words in it.
 */
export class SchemaNames {
  readonly #schema: string;
  /** Our statements are constants, so there are as many texts as statements. */
  readonly #texts = new Map<string, string>();

  /** @param schema checked: it has neither quotes nor dots */
  constructor(schema: string) {
    this.#schema = schema;
  }

  text(text: string): string {
    const known = this.#texts.get(text);
    if (known !== undefined) return known;
    const parts = text.split(CHANNELS);
    const channels = (text.match(CHANNELS) ?? []).map(name => this.channel(name));
    const put = parts.map((part, at) => this.#qualify(part) + (channels[at] ?? '')).join('');
    this.#texts.set(text, put);
    return put;
  }

  channel(name: string): string {
    return `${this.#schema}.${name}`;
  }

  database(db: PostgresDatabase): PostgresDatabase {
    const withoutLimits = db.withoutLimits?.bind(db);
    return {
      ...this.#runner(db),
      transaction: fn => db.transaction(tx => fn(this.#runner(tx))),
      ...(withoutLimits && {
        withoutLimits: fn => withoutLimits(session => fn(this.#runner(session))),
      }),
      listen: (channel, hint) => db.listen(this.channel(channel), hint),
      close: () => db.close(),
    };
  }

  executor<Tx>(executor: Executor<Tx>): Executor<Tx> {
    const executeKept = executor.executeKept?.bind(executor);
    const executeInside = executor.executeInside?.bind(executor);
    return {
      isCertain: tx => executor.isCertain(tx),
      execute: (tx, text, values) => executor.execute(tx, this.text(text), values),
      ...(executeKept && {
        executeKept: (tx, text, values) => executeKept(tx, this.text(text), values),
      }),
      ...(executeInside && {
        executeInside: (tx, text, values) => executeInside(tx, this.text(text), values),
      }),
    };
  }

  /** For fences and comparisons, which write no tasks. */
  adapter<Tx>(adapter: TransactionAdapter<Tx>): TransactionAdapter<Tx> {
    return {
      dialect: adapter.dialect,
      endsIdleTransactions: adapter.endsIdleTransactions,
      execute: (tx, text, values) => adapter.execute(tx, this.text(text), values),
      transaction: (fn, leave) => adapter.transaction(fn, leave),
      status: tx => adapter.status(tx),
    };
  }

  #runner(runner: SqlRunner): SqlRunner {
    return { query: (text, params) => runner.query(this.text(text), params) };
  }

  #qualify(part: string): string {
    return part.replaceAll(NAMES, `"${this.#schema}".$&`);
  }
}
