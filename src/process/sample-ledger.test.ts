import { expect, it } from 'vitest';
import type { ObjectiveCounts } from '../ledger/tallies.ts';
import { outlastError } from '../errors/error.ts';
import { silentLogger } from '../telemetry/logger.ts';
import { VirtualTime } from '../testing/virtual-time.ts';
import { sampleLedger } from './sample-ledger.ts';
import { Registry } from '../metrics/registry.ts';

const slo = { success: 0.9, latency: null };
const done = { startMs: 60_000, figure: 'done', count: 8 } as const;
const dead = { startMs: 60_000, figure: 'dead', count: 2 } as const;

it('gauges have what the ledger has counted, and nothing while it cannot be read', async () => {
  const time = new VirtualTime();
  const registry = new Registry();
  let isAway = false;
  const objectives = async (): Promise<ObjectiveCounts> => {
    if (isAway)
      throw outlastError('ERR_STORE_UNAVAILABLE', { message: 'away', hint: '', fields: {} });
    return { nowMs: 90_000, objectives: [{ name: 'a', slo, buckets: [done, dead] }] };
  };
  const totals = async () => [{ name: 'a', queue: 'q', counts: { done: 8 } }];
  const stop = new AbortController();
  const runtime = { clock: time.clock, log: silentLogger };
  const sampling = sampleLedger({ objectives, totals }, registry, runtime, stop.signal);
  await time.runUntil(1);
  const found = registry.snapshot();
  expect(found.outlast_slo_burn_rate).toContainEqual([
    ['a', 'success', '5m'],
    expect.closeTo(2, 9) as number,
  ]);
  expect(found.outlast_totals).toEqual([[['a', 'q', 'done'], 8]]);
  isAway = true;
  await time.runUntil(30_001);
  expect(registry.snapshot()).not.toHaveProperty('outlast_slo_burn_rate');
  expect(registry.snapshot()).not.toHaveProperty('outlast_totals');
  isAway = false;
  await time.runUntil(60_001);
  expect(registry.snapshot().outlast_totals).toHaveLength(1);
  stop.abort();
  await sampling;
});
