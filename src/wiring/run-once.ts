import type { Service } from '../runtime/service.ts';
import { durationMs, type Duration } from '../task/duration.ts';
import type { Handler } from '../worker/handler.ts';
import type { Internals } from './internals.ts';
import { INTERNALS } from './outlast.ts';
import { startRelay, startResurrector, startWatchedWorker, type AnyOutlast } from './services.ts';

const LOOK_MS = 200;
/** A broker apart does not tell what it still has: whoever consumes it is given time for some looks. */
const LOOKS_AT_BROKER = 5;

/**
 * Relays, runs and recovers until nothing is left to do or the time is over: for cron routes.
 *
 * @example
 * await runOnce(outlast, { tasks: [chargeHandler], maxTime: '50s' });
 */
export async function runOnce(
  outlast: AnyOutlast,
  options: { readonly tasks: readonly Handler[]; readonly maxTime?: Duration },
): Promise<void> {
  const internals = outlast[INTERNALS];
  const { clock } = internals.runtime;
  const endsAt = clock.monotonic() + durationMs(options.maxTime ?? '50s', 'maxTime');
  const services: Service[] = [];
  try {
    services.push(await startRelay(outlast));
    const { service, isOpen } = await startWatchedWorker(outlast, { tasks: options.tasks });
    services.push(service);
    // Where nothing runs between two calls nobody else brings back what a killed call was running.
    services.push(await startResurrector(outlast));
    const ended = Promise.all(services.map(({ finished }) => finished));
    ended.catch(() => undefined);
    const isApart = internals.config.broker !== null;
    for (let idle = 0; clock.monotonic() < endsAt;) {
      // Before the worker takes anything, an empty ledger says nothing about what is in a broker.
      const isLooking = !isApart || isOpen();
      idle = isLooking && (await isIdle(internals)) ? idle + 1 : 0;
      if (idle >= (isApart ? LOOKS_AT_BROKER : 1)) return;
      await Promise.race([new Promise<void>(resolve => void clock.timer(LOOK_MS, resolve)), ended]);
    }
  } finally {
    await Promise.all(services.map(service => service.stop()));
  }
}

/** Nothing is due in the outbox, and nothing is left in the queues that are served here. */
async function isIdle(internals: Internals): Promise<boolean> {
  const { reads, outbox } = await internals.stores();
  const { outbox: rows, queues } = await reads.stats(0);
  const dueMs = await outbox.nextDueMs();
  const isOutboxIdle = rows.pending + rows.claimed === 0 || (dueMs ?? 1) > 0;
  const isServed = (queue: string): boolean => queue in internals.config.worker.queues;
  return (
    isOutboxIdle && queues.every(row => !isServed(row.queue) || row.waiting + row.running === 0)
  );
}
