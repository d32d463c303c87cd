import { sqlStateOf } from '../postgres/pg-errors.ts';
import { statementName } from '../postgres/statement-name.ts';

/** As much of a `pg` client as is used. */
interface Client {
  query(text: string, values?: unknown[]): Promise<{ readonly rows: unknown[] }>;
}

/** What `pg` has besides. */
interface NamingClient {
  /** The session that the server, or the pooler before it, told of when the client connected. */
  readonly processID?: number | null;
  query(statement: Statement, values: readonly unknown[]): Promise<{ readonly rows: unknown[] }>;
}

interface Statement {
  readonly name: string;
  readonly text: string;
}

/**
 * Makes what `pg` is given for a statement with a name. `pg` copies every property of its own that such an object has,
 * with its descriptor, which takes longer than making a task; so it has none, and inherits both.
 */
function statementOf(text: string): Statement {
  let kept = statements.get(text);
  if (kept === undefined) {
    kept = { name: statementName(text), text };
    statements.set(text, kept);
  }
  return Object.create(kept) as Statement;
}

const statements = new Map<string, Statement>();

/**
 * Which clients may name statements, so that the server plans them once and not with every send.
 *
 * A pooler in transaction mode gives each transaction to another session, which may not know the name: the statement
 * would fail, and the user's transaction with it. Such a pooler cannot tell its clients the number of their session, for
 * they have none. So the session that answers is compared with the one the client was told of, once per connection.
 */
export class KeptPlans {
  #isOn: boolean;
  readonly #answers = new WeakMap<Client, boolean>();

  constructor(isOn: boolean) {
    this.#isOn = isOn;
  }

  /** Undefined: nobody has asked this client yet. */
  isKeptBy(client: Client): boolean | undefined {
    return this.#isOn ? this.#answers.get(client) : false;
  }

  async ask(client: Client): Promise<boolean> {
    const told = (client as unknown as NamingClient).processID;
    const { rows } = await client.query('select pg_backend_pid()::text as session');
    const [row] = rows as { readonly session: string }[];
    const isOwn = typeof told === 'number' && row?.session === String(told);
    this.#answers.set(client, isOwn);
    return isOwn;
  }

  query(client: Client, text: string, values: readonly unknown[]): Promise<unknown[]> {
    return (client as unknown as NamingClient)
      .query(statementOf(text), values)
      .then(rowsOf, this.#onError);
  }

  readonly #onError = (error: unknown): never => {
    // Something made the session forget. This transaction is lost, and no other shall be.
    if (sqlStateOf(error) === '26000') this.#isOn = false;
    throw error;
  };
}

const rowsOf = ({ rows }: { readonly rows: unknown[] }): unknown[] => rows;
