import { sqlStateOf } from '../postgres/pg-errors.ts';
import { statementName } from '../postgres/statement-name.ts';

/** The part of a `pg` client that is used. */
interface Client {
  query(text: string, values?: unknown[]): Promise<{ readonly rows: unknown[] }>;
}

/** Further fields of `pg`. */
interface NamingClient {
  /** The session that the server, or the pooler in front of it, announced when the client connected. */
  readonly processID?: number | null;
  query(statement: Statement, values: readonly unknown[]): Promise<{ readonly rows: unknown[] }>;
}

interface Statement {
  readonly name: string;
  readonly text: string;
}

/**
 * Makes the object for a named statement of `pg`. `pg` copies every own property of such an object, with its descriptor,
 * which takes longer than making a task; so it has none, and inherits both.
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
 * would fail, and the user's transaction with it. Such a pooler cannot announce a session number to its clients, for
 * they have none. So the session that answers is compared with the announced one, once per connection.
 */
export class KeptPlans {
  #isOn: boolean;
  readonly #answers = new WeakMap<Client, boolean>();

  constructor(isOn: boolean) {
    this.#isOn = isOn;
  }

  /** Undefined: this client was not checked yet. */
  isKeptBy(client: Client): boolean | undefined {
    return this.#isOn ? this.#answers.get(client) : false;
  }

  async ask(client: Client): Promise<boolean> {
    const announced = (client as unknown as NamingClient).processID;
    const { rows } = await client.query('select pg_backend_pid()::text as session');
    const [row] = rows as { readonly session: string }[];
    const isOwn = typeof announced === 'number' && row?.session === String(announced);
    this.#answers.set(client, isOwn);
    return isOwn;
  }

  query(client: Client, text: string, values: readonly unknown[]): Promise<unknown[]> {
    return (client as unknown as NamingClient)
      .query(statementOf(text), values)
      .then(rowsOf, this.#onError);
  }

  readonly #onError = (error: unknown): never => {
    // The session has forgotten the name. This transaction is lost, but no other will be.
    if (sqlStateOf(error) === '26000') this.#isOn = false;
    throw error;
  };
}

const rowsOf = ({ rows }: { readonly rows: unknown[] }): unknown[] => rows;
