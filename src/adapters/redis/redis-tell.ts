import type { Ledger } from '../../ledger/ledger.ts';
import { slicesOf } from '../../runtime/wakeable.ts';
import { partsOf } from '../../wire/reply.ts';
import { LUA } from './lua.generated.ts';
import type { RedisConnection } from './redis-connection.ts';

/** Ids of one call. */
const CHUNK = 500;

/** Where Celery's callers look for the ends of tasks. */
export function redisTeller(
  connection: RedisConnection,
  root: string,
  celeryResultMs: number,
): NonNullable<Ledger['recordNeverSent']> {
  return async (ids, told, of) => {
    for (const some of slicesOf(ids, CHUNK)) {
      const args = [celeryResultMs, told.status, ...partsOf(told), of, ...some];
      await connection.script(LUA.ledgerTell, [root], args);
    }
  };
}
