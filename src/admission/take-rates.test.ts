import { expect, it } from 'vitest';
import { MemoryAdmissionStore } from '../testing/memory/memory-admission-store.ts';
import { MemoryLedger } from '../testing/memory/memory-ledger.ts';
import { stoppedClock } from '../../test/support/memory-ledger.ts';
import type { Limit } from './limits.ts';
import { takeRates } from './take-rates.ts';

const limit = (key: string, most: number): Limit => ({
  key,
  rate: { limit: most, perMs: 3_600_000, burst: most },
  concurrency: null,
});

it('takes nothing from earlier limits when a later limit refuses the task', async () => {
  const clock = stoppedClock();
  const store = new MemoryAdmissionStore({ clock, ledger: new MemoryLedger({ clock }) });
  const [tenant, queue] = [limit('tenant:a', 10), limit('queue:q', 2)];
  const { verdicts } = await takeRates(
    Array.from({ length: 5 }, () => [tenant, queue]),
    store,
  );
  expect(verdicts.map(verdict => verdict?.key ?? 'in')).toEqual([
    'in',
    'in',
    'queue:q',
    'queue:q',
    'queue:q',
  ]);
  const left = (await store.figures()).map(({ key, available }) => [key, available]);
  expect(left).toEqual([
    ['queue:q', 0],
    ['tenant:a', 8],
  ]);
});
