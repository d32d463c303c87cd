import { createHash } from 'node:crypto';
import { RedisAdmissionStore } from '../../src/adapters/redis/redis-admission-store.ts';
import type { RootsOf } from '../../src/adapters/redis/redis-find.ts';
import type { AdmissionFixture } from '../conformance/admission.ts';
import { unique } from '../conformance/envelopes.ts';
import { withRedis } from './redis-broker.ts';
import type { TestClusterLedger, TestLedger } from './redis-ledger.ts';

/** The server's clock cannot be moved, so every time it stored is. */
const SHIFT = `#!lua
local key, ms = KEYS[1], tonumber(ARGV[1])
local kind, left = redis.call('TYPE', key).ok, redis.call('PTTL', key)
if kind == 'zset' then
  for _, member in ipairs(redis.call('ZRANGE', key, 0, -1)) do redis.call('ZINCRBY', key, -ms * 1000, member) end
elseif kind == 'hash' and redis.call('HGET', key, 'tat') then
  redis.call('HSET', key, 'tat', string.format('%.0f', redis.call('HGET', key, 'tat') - ms * 1000))
end
if left > 0 then redis.call('PEXPIRE', key, math.max(0, math.floor(left - ms))) end`;
const SHIFT_SCRIPT = { text: SHIFT, sha: createHash('sha1').update(SHIFT).digest('hex') };

/** Admission beside a ledger of a test, with keys of its own. */
export async function openTestAdmission(
  ledger: TestLedger | TestClusterLedger,
  nodes: readonly string[],
  prefix: string = `${unique('admission')}:`,
): Promise<AdmissionFixture & { readonly prefix: string }> {
  const { connection } = ledger;
  const roots: RootsOf = async isFresh =>
    'root' in ledger ? [ledger.root] : await ledger.parts.roots(isFresh);
  return {
    ...ledger,
    prefix,
    store: new RedisAdmissionStore(connection, roots, prefix),
    advance: async ms => {
      const lists = await Promise.all(
        nodes.map(url => withRedis(url, async redis => await redis.command('keys', `${prefix}*`))),
      );
      const keys = (lists as Buffer[][]).flat().map(String);
      await Promise.all(keys.map(key => connection.script(SHIFT_SCRIPT, [key], [ms])));
    },
  };
}
