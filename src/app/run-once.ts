import type { Service } from '../runtime/runtime.ts';
import { durationMs, type Duration } from '../task/duration.ts';
import { abilitiesOf, canRun, type Abilities, type Handler } from '../worker/handler.ts';
import { handlerMap } from '../process/load-handlers.ts';
import { movesItself } from '../process/own-relay.ts';
import type { Context } from '../context/context.ts';
import { CONTEXT } from './outlast.ts';
import { relayOn, resurrectorOn, workerOn, type AnyOutlast } from './services.ts';

const LOOK_MS = 200;
const PAGE = 500;
/** A separate broker does not report what it still has: its consumers get time for several polls. */
const LOOKS_AT_BROKER = 5;

/** What a call of `runOnce` has left undone. */
export interface RunOnceReport {
  /** Tasks of its queues that none of its handlers can run, or not at so new a version: they wait for a worker that can. */
  readonly withoutHandler: number;
}

/** See `runOnce`. */
export async function runUntilIdle(
  outlast: AnyOutlast,
  options: { readonly tasks: readonly Handler[]; readonly maxTime?: Duration },
): Promise<RunOnceReport> {
  const context = outlast[CONTEXT];
  const { clock } = context.runtime;
  const { runnable } = abilitiesOf(handlerMap(options.tasks));
  const endsAt = clock.monotonic() + durationMs(options.maxTime ?? '50s', 'maxTime');
  const services: Service[] = [];
  try {
    if (!movesItself(context.config)) services.push(await relayOn(outlast));
    const { service, isOpen } = await workerOn(outlast, { tasks: options.tasks });
    services.push(service);
    // If nothing runs between two calls, no other process brings back what a killed call was running.
    services.push(await resurrectorOn(outlast));
    const ended = Promise.all(services.map(({ finished }) => finished));
    ended.catch(() => undefined);
    const isSeparate = context.config.broker !== null;
    for (let idle = 0; clock.monotonic() < endsAt;) {
      // Before the worker takes anything, an empty ledger proves nothing about a broker.
      const isLooking = !isSeparate || isOpen();
      idle = isLooking && (await isIdle(context, runnable)) ? idle + 1 : 0;
      if (idle >= (isSeparate ? LOOKS_AT_BROKER : 1)) break;
      await Promise.race([new Promise<void>(resolve => void clock.timer(LOOK_MS, resolve)), ended]);
    }
    const withoutHandler = await countRefused(context, runnable);
    if (withoutHandler > 0)
      context.log.warn({ withoutHandler }, 'tasks wait for a worker that has their handler');
    return { withoutHandler };
  } finally {
    await Promise.all(services.map(service => service.stop()));
  }
}

type Runnable = Abilities['runnable'];

const isServed = ({ config }: Context, queue: string): boolean =>
  Object.hasOwn(config.worker.queues, queue);

/** Tasks of the queues served here that were set aside, and that this call cannot run either. */
async function countRefused(context: Context, runnable: Runnable): Promise<number> {
  const { refusals } = (await context.stores()).ledger;
  let count = 0;
  for (let after: string | undefined; ;) {
    const { tasks, next } = await refusals.list(PAGE, after);
    count += tasks.filter(
      ({ envelope }) => isServed(context, envelope.queue) && !canRun(envelope, runnable),
    ).length;
    if (next === null) return count;
    after = next;
  }
}

/** Nothing is due in the outbox, and the queues served here hold only tasks that cannot be run here, or not yet. */
async function isIdle(context: Context, runnable: Runnable): Promise<boolean> {
  const { reads, outbox, ledgerReads } = await context.stores();
  // The outbox is asked first: a row that moves on between two looks is then seen by the later one, in the ledger.
  const dueMs = await outbox.nextDueMs();
  if (dueMs !== null && dueMs <= 0) return false;
  const { outbox: rows, queues } = await reads.stats(0);
  if (rows.claimed > 0) return false;
  const served = queues.filter(({ queue }) => isServed(context, queue));
  const sum = (counts: readonly number[]): number => counts.reduce((all, one) => all + one, 0);
  if (served.some(({ running }) => running > 0)) return false;
  const waiting = sum(served.map(row => row.waiting));
  if (waiting === 0) return true;
  // Counted second: a task that was set aside in between, or has become due, only causes another look.
  const later = (await ledgerReads.countScheduled?.(served.map(({ queue }) => queue))) ?? 0;
  return later + (await countRefused(context, runnable)) === waiting;
}
