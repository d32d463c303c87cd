import { LimitBook } from '../admission/limits.ts';
import type { Context } from '../context/context.ts';
import type { Stores } from '../context/stores.ts';
import { sleep } from '../runtime/runtime.ts';
import type { Declarer } from '../schedule/declarer.ts';
import type { Scheduler } from '../schedule/scheduler.ts';
import type { ScheduleOperations } from '../schedule/schedules.ts';

/** After an error that is no outage: the process goes on, and so must its schedules. */
const AGAIN_MS = 5_000;

/** Does the work of a worker, a relay or a resurrector, and fires schedules meanwhile: no process is needed for them alone. */
export async function besideScheduler<T>(context: Context, work: () => Promise<T>): Promise<T> {
  const ended = new AbortController();
  const firing = fireSchedules(context, ended.signal);
  try {
    return await work();
  } finally {
    ended.abort();
    await firing;
  }
}

async function fireSchedules(context: Context, signal: AbortSignal): Promise<void> {
  const { runtime } = context;
  while (!signal.aborted) {
    try {
      const { declarer, scheduler } = await openScheduler(context, await context.stores());
      const broken = new AbortController();
      const either = AbortSignal.any([signal, broken.signal]);
      const loops = [declarer.run(either), scheduler.run(either)];
      try {
        await Promise.all(loops);
      } finally {
        broken.abort();
        await Promise.allSettled(loops);
      }
    } catch (error) {
      runtime.log.error({ error }, 'schedules cannot be fired; trying again');
      await sleep(runtime.clock, AGAIN_MS, signal);
    }
  }
}

/** Loaded when it is needed: an application that only sends has no use for it. */
export async function openScheduler(
  context: Context,
  stores: Stores,
): Promise<{ readonly declarer: Declarer; readonly scheduler: Scheduler }> {
  const { config, runtime } = context;
  const { Scheduler: Firing } = await import('../schedule/scheduler.ts');
  const { Declarer: Keeping } = await import('../schedule/declarer.ts');
  const { schedules: store, outboxReads, ledgerReads } = stores;
  const operations = await scheduleOperations(context, stores);
  const { keyring, schedule: specs } = config;
  return {
    declarer: new Keeping({ store, operations, runtime, specs }),
    scheduler: new Firing({ store, outboxReads, ledgerReads, keyring, runtime }),
  };
}

export async function scheduleOperations(
  { config, runtime, redact }: Context,
  { schedules: store }: Pick<Stores, 'schedules'>,
): Promise<ScheduleOperations> {
  const { ScheduleOperations: Operations } = await import('../schedule/schedules.ts');
  const { keyring, maxPayloadBytes, admission } = config;
  const compose = { maxPayloadBytes, redact, book: new LimitBook(admission) };
  return new Operations({ store, keyring, random: runtime.random, compose });
}
