import { isInProgress, isReadOnly } from './mysql-errors.ts';

/** One connection of MySQL or MariaDB, which runs statements in the order in which they were given to it. */
export interface GuardedSession<Row> {
  run(sql: string): Promise<unknown>;
  statement(): Promise<readonly Row[]>;
  /** What the last answer said: with autocommit off, the statement begins a transaction. */
  isAutocommit(answer: unknown): boolean;
}

/**
 * Runs a statement that writes, so that the server refuses it outside of a transaction. Neither server has an expression that
 * tells, and an answer to a question is old when it arrives. But in a transaction the characteristics of the next
 * one cannot be changed, and outside of it a statement is the next one: made read-only, it cannot write. All three are
 * given to the driver at once, so that none of the caller's comes between them.
 *
 * Returns null if the statement was refused.
 */
export async function runInside<Row>(session: GuardedSession<Row>): Promise<readonly Row[] | null> {
  const marking = settled(session.run('set transaction read only'));
  const answering = settled(session.statement());
  const unmarking = settled(session.run('set transaction read write'));
  const [mark, answer] = [await marking, await answering];
  await unmarking;
  if (!mark.isOk) {
    if (!isInProgress(mark.error)) throw mark.error;
    if (!answer.isOk) throw answer.error;
    return answer.value;
  }
  if (!answer.isOk && !isReadOnly(answer.error)) throw answer.error;
  return session.isAutocommit(mark.value) ? null : await session.statement();
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
