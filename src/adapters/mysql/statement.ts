/** A statement of a .sql file: its text with `?`, and for each `?` which of the file's parameters it stands for. */
export interface MysqlStatement {
  readonly text: string;
  readonly order: readonly number[];
}

export interface Bound<V> {
  readonly text: string;
  readonly values: readonly V[];
}

/**
 * Puts parameters in the order of their placeholders. A list becomes one placeholder for each member: MySQL has no arrays.
 * A `?` in the text of our files is always a placeholder; the generator checks that.
 */
export function bind<V>(
  statement: MysqlStatement,
  params: readonly (V | readonly V[])[],
): Bound<V> {
  const [head = '', ...rest] = statement.text.split('?');
  const values: V[] = [];
  const parts = rest.map((after, place) => {
    const param = params[statement.order[place] ?? -1] as V | readonly V[];
    const members: readonly V[] = Array.isArray(param) ? param : [param as V];
    values.push(...members);
    return `${members.map(() => '?').join(', ')}${after}`;
  });
  return { text: head + parts.join(''), values };
}

/** The row after `values`, up to the end or to the `on duplicate key` clause. */
const ROW = /\bvalues (\([^]*?\))(?=\s+on duplicate key update|$)/;

/** An INSERT of one row, extended to many rows. */
export function bindRows<V>(statement: MysqlStatement, rows: readonly (readonly V[])[]): Bound<V> {
  const one = ROW.exec(statement.text)?.[1] ?? '';
  const text = statement.text.replace(ROW, () => `values ${rows.map(() => one).join(',\n')}`);
  const values = rows.flatMap(row => statement.order.map(number => row[number] as V));
  return { text, values };
}

/**
 * The same, and nothing is inserted unless the row of `proof-write.sql` is there: so the server decides in the statement that
 * writes, and not before it.
 */
export function bindProven(
  statement: MysqlStatement,
  rows: readonly (readonly (string | null)[])[],
  proof: string,
): Bound<string | null> {
  const row = ROW.exec(statement.text)?.[1] ?? '';
  const one = `select ${row.slice(1, -1)} from outlast_send_key as proof where proof.key_hash = ?`;
  const text = statement.text.replace(ROW, () => rows.map(() => one).join('\nunion all '));
  const values = rows.flatMap(given => [
    ...statement.order.map(number => given[number] as string | null),
    proof,
  ]);
  return { text, values };
}
