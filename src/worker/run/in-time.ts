import type { BegunTask } from '../../ledger/ledger.ts';
import type { Runtime } from '../../runtime/runtime.ts';
import { readOptions } from '../../task/read-options.ts';
import type { Handler } from '../handler.ts';
import { circumstancesOf, stopped } from '../isolate/run-in-isolate.ts';
import type { RunStop } from './run-stop.ts';
import { failed, timedOut, type Settlement } from './settlement.ts';

export interface TimedRun {
  readonly task: BegunTask;
  readonly handler: Handler;
  readonly stop: RunStop;
}

/**
 * The result of a user's schema or migration, which may be asynchronous: it gets no longer than the task may run, and ends
 * when the run is stopped. Otherwise one that never resolves would keep its task running, and its worker from draining.
 */
export async function inTime<T>(
  work: Promise<T>,
  { task, handler, stop }: TimedRun,
  runtime: Runtime,
): Promise<T | Settlement> {
  const { clock } = runtime;
  const undo: (() => void)[] = [];
  const { timeoutMs, deadlineMs } = readOptions(task.envelope);
  const over = new Promise<Settlement>(resolve => {
    const expire = (ms: number, what: string): void => {
      const end = (): void => {
        const cause = timedOut(task, ms, what);
        resolve(failed(handler, task, circumstancesOf(task, runtime), { cause, askedMs: null }));
      };
      undo.push(clock.timer(ms, end));
    };
    if (timeoutMs !== undefined) expire(timeoutMs, 'its timeout');
    if (deadlineMs !== undefined) expire(deadlineMs - clock.now(), 'its deadline');
    const end = (): void => resolve(stopped(stop));
    stop.onStop(end);
    undo.push(() => stop.offStop(end));
  });
  try {
    return await Promise.race([work, over]);
  } finally {
    for (const one of undo) one();
  }
}
