import { isInProgress, isReadOnly } from './mysql-errors.ts';
import { SQL } from './sql.generated.ts';

/** One connection of MySQL or MariaDB, which runs statements in the order in which they were given to it. */
export interface GuardedSession<Row> {
  run(sql: string): Promise<unknown>;
  statement(): Promise<readonly Row[]>;
}

/**
 * Runs a statement that writes, so that the server refuses it outside of a transaction. Neither server has an expression that
 * tells, and an answer to a question is old when it arrives. But in a transaction the characteristics of the next
 * one cannot be changed, and outside of it a statement is the next one: made read-only, it cannot write. All of them are
 * given to the driver at once, so that none of the caller's comes between them.
 *
 * With autocommit off the first statement begins a transaction, so the look at a table does: the statement that writes must not
 * be repeated after the refusal, because the caller may have rolled back by then.
 *
 * Returns null if the statement was refused.
 */
export async function runInside<Row>(session: GuardedSession<Row>): Promise<readonly Row[] | null> {
  const looking = settled(session.run(SQL.transactionOpen.text));
  const marking = settled(session.run('set transaction read only'));
  const answering = settled(session.statement());
  const unmarking = settled(session.run('set transaction read write'));
  const [, mark, answer] = [await looking, await marking, await answering];
  await unmarking;
  if (mark.isOk && !answer.isOk && isReadOnly(answer.error)) return null;
  if (!mark.isOk && !isInProgress(mark.error)) throw mark.error;
  if (!answer.isOk) throw answer.error;
  // A statement that was not refused wrote nothing.
  return mark.isOk ? null : answer.value;
}

type Settled<T> =
  | { readonly isOk: true; readonly value: T }
  | { readonly isOk: false; readonly error: unknown };

/** Each is awaited after the others were begun, and none may be an unhandled rejection until then. */
const settled = <T>(promise: Promise<T>): Promise<Settled<T>> =>
  promise.then(
    value => ({ isOk: true, value }) as const,
    (error: unknown) => ({ isOk: false, error }) as const,
  );
