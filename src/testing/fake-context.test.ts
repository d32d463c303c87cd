import { expect, it } from 'vitest';
import { z } from 'zod';
import { task, type TaskShape } from '../task/define-task.ts';
import { retryIn } from '../task/verdict.ts';
import type { TaskContext } from '../worker/context.ts';
import { fakeContext } from './fake-context.ts';

const receipt = task('fake.receipt', { input: z.string() });
const charge = task('fake.charge', {
  input: z.object({ order: z.string(), cents: z.number().default(1) }),
  result: z.string(),
  timeout: '1ms',
});

interface Tx {
  insert(row: string): Promise<void>;
}
type Progress = { readonly page: number };

/** A handler's function, as a module exports it. */
async function charging(
  { order, cents }: { readonly order: string; readonly cents: number },
  ctx: Omit<TaskContext<TaskShape, Tx, Progress>, 'input'>,
) {
  ctx.signal.throwIfAborted();
  if (ctx.attempt === 1) return retryIn('5m', 'later');
  await ctx.checkpoint({ page: (ctx.lastCheckpoint?.page ?? 0) + 1 });
  await ctx.transaction(async tx => await tx.insert(`${order} ${cents}`));
  await ctx.send(receipt, order, { countdown: '1m' });
  return `paid ${order}`;
}

it('lets a handler be called without a kit, and tells what it has done', async () => {
  const rows: string[] = [];
  const ctx = await fakeContext(
    charge,
    { order: '17' },
    {
      attempt: 2,
      resurrections: 1,
      lastCheckpoint: { page: 7 },
      headers: { region: 'eu' },
      context: { requestId: 'r-1' },
      schedule: { name: 'nightly', slot: new Date(0) },
      tx: (): Tx => ({ insert: async row => void rows.push(row) }),
    },
  );
  // The schema's output, as a worker gives it.
  expect(ctx.input).toEqual({ order: '17', cents: 1 });
  expect(await charging(ctx.input, ctx)).toBe('paid 17');
  expect(rows).toEqual(['17 1']);
  expect(ctx.checkpoints).toEqual([{ page: 8 }]);
  expect(ctx.sent).toMatchObject([
    { name: 'fake.receipt', input: '17', options: { countdown: '1m' } },
  ]);
  expect(ctx).toMatchObject({ name: 'fake.charge', attempt: 2, resurrections: 1 });
  expect([ctx.headers['region'], ctx.context, ctx.schedule]).toEqual([
    'eu',
    { requestId: 'r-1' },
    { name: 'nightly', slot: new Date(0) },
  ]);
});

it('refuses what a worker refuses', async () => {
  await expect(fakeContext(charge, { order: 1 } as never)).rejects.toMatchObject({
    code: 'ERR_INPUT_INVALID',
  });
  const ctx = await fakeContext(charge, { order: '1' });
  await expect(ctx.send(receipt, 5 as never)).rejects.toMatchObject({ code: 'ERR_INPUT_INVALID' });
  await expect(ctx.transaction(async () => new Date())).rejects.toMatchObject({
    code: 'ERR_INPUT_NOT_JSON',
  });
  await expect(ctx.transaction(async () => 1)).rejects.toMatchObject({ code: 'ERR_STEP_REUSED' });
  const untold = ctx.transaction(async tx => (tx as Tx).insert('x'), { step: 'second' });
  await expect(untold).rejects.toMatchObject({ code: 'ERR_CONFIG_TIER' });
});

it('fires its signals when the test says so, and never by itself', async () => {
  const ctx = await fakeContext(charge, { order: '1' });
  ctx.drain();
  expect([ctx.softSignal.aborted, ctx.signal.aborted]).toEqual([true, false]);
  ctx.abort();
  expect(ctx.signal.reason).toMatchObject({ code: 'ERR_LEASE_LOST' });
  await expect(ctx.send(receipt, 'x')).rejects.toMatchObject({ code: 'ERR_LEASE_LOST' });
});
