import { outlastError } from '../../errors/error.ts';
import type { TaskRef } from '../../ledger/ledger.ts';
import { LUA } from './lua.generated.ts';
import type { RedisConnection } from './redis-connection.ts';
import { isWrongType, replyCodeOf } from './redis-errors.ts';
import { pack, type Packable } from './redis-pack.ts';
import { readRef } from './redis-replies.ts';

/** Tasks checked in each list: as many as one `begin` may have met. */
const LOOKED_AT = 1_500;
/** Each isolates at least one record; if more are needed, something else is wrong. */
const MOST_ROUNDS = 20;

/** The tasks of a step, beside those run by closed incarnations and those set aside. */
export interface StepScope {
  readonly ids?: readonly string[];
  readonly queues?: readonly string[];
}

/**
 * Runs a step. If the server refuses it because a foreign client has written to a record, that record becomes a dead
 * letter and the step is repeated. The refused step has written nothing, because scripts decide everything before they
 * write. A step that is not refused pays nothing for this.
 */
export async function withIsolation<T>(
  connection: RedisConnection,
  root: string,
  scope: StepScope,
  step: (isolated: readonly TaskRef[]) => Promise<T>,
): Promise<T> {
  const isolated: TaskRef[] = [];
  for (let round = 1; ; round++) {
    try {
      return await step(isolated);
    } catch (error) {
      if (!isRefusal(error)) throw error;
      const found = await isolateRecords(connection, root, scope);
      isolated.push(...found);
      if (found.length === 0 || round === MOST_ROUNDS) throw asOutage(error);
    }
  }
}

/** Turns the records in this scope that no step can read into dead letters. */
export async function isolateRecords(
  connection: RedisConnection,
  root: string,
  { ids = [], queues = [] }: StepScope,
): Promise<readonly TaskRef[]> {
  const args = [pack(ids), pack(queues), LOOKED_AT];
  const reply = await connection.script(LUA.ledgerIsolate, [root], args);
  return (reply as readonly (readonly [Buffer, Buffer, Buffer])[]).map(readRef);
}

/** The first part of an item is the id, or the message that starts with it. */
export function idOf(parts: Packable): string {
  const [first] = parts as readonly Packable[];
  return typeof first === 'string' ? first : idOf(first as Packable);
}

/** An error of a script that met something it cannot use. */
function isRefusal(error: unknown): boolean {
  return replyCodeOf(error) === 'ERR' || isWrongType(error);
}

/** A key that is not a record but a list of them: only an operator can decide what should be there. */
function asOutage(error: unknown): unknown {
  if (!isWrongType(error)) return error;
  return outlastError('ERR_STORE_UNAVAILABLE', {
    message: `a key of the ledger holds what is not ours: ${(error as Error).message}`,
    hint: 'Look for it with TYPE under the prefix outlast: (sorted sets, hashes and strings are ours); rename or delete it.',
    fields: {},
    cause: error,
  });
}
