import { describe, expect, it } from 'vitest';
import { createAdmin } from '../../dist/admin/index.js';
import { task, unchecked } from '../../dist/index.js';
import { isLong } from '../support/selection.ts';
import { Dormitory, ownRedis } from './dormitory.ts';

const compute = task('sleep.compute', {
  input: unchecked<{ ms?: number }>(),
  result: unchecked<{ pid: number }>(),
});
/** A minute is too long for every run of the tests. */
const COMPUTING_S = isLong ? [3, 60] : [3];

describe.each([
  { tier: 'PostgreSQL', open: async () => ({}) },
  { tier: 'Redis', open: async () => ({ broker: await ownRedis() }) },
])('on $tier', ({ open }) => {
  it.each(COMPUTING_S)(
    'a worker that computes for %i s, longer than its lease, is not declared dead',
    async seconds => {
      const dormitory = await Dormitory.open(await open());
      const child = dormitory.start(['compute']);
      const sent = await dormitory.outlast.push(
        compute,
        { ms: seconds * 1_000 },
        { queue: 'compute' },
      );
      expect(await sent.result({ timeout: '120s' })).toEqual({ pid: child.pid });
      const found = await createAdmin(dormitory.outlast).tasks.inspect(sent.id);
      expect(found).toMatchObject({ state: 'done', crashes: 0 });
      expect(await dormitory.epochsOf('run', sent.id)).toEqual([found?.epoch]);
      expect(await dormitory.end(child)).toBe(0);
    },
  );

  it('a worker that computes for ever is killed after maxBlock, and its task is dead when its crash budget is spent', async () => {
    const dormitory = await Dormitory.open(await open());
    const sent = await dormitory.outlast.push(compute, {}, { queue: 'compute' });
    for (let process = 1; process <= 2; process++) {
      const child = dormitory.start(['compute'], undefined, { OUTLAST_WORKER_MAX_BLOCK: '600ms' });
      expect(await dormitory.ended(child)).toBe('SIGKILL');
    }
    await expect(sent.result({ timeout: '60s' })).rejects.toMatchObject({
      code: 'ERR_TASK_FAILED',
      type: 'ERR_RESURRECTIONS_SPENT',
    });
    expect(await dormitory.epochsOf('run', sent.id)).toHaveLength(2);
  });
});
