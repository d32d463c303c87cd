import { runInNewContext } from 'node:vm';

/** Far more than anything needs that ends, also on a busy machine. */
const LIMIT_MS = 60_000;

/** What `fn` returns. A computation without an end fails here; by itself it would hang the whole suite, and name no test. */
export function endsAtAll<T>(fn: () => T): T {
  return runInNewContext('fn()', { fn }, { timeout: LIMIT_MS }) as T;
}
