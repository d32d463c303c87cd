import type { Context } from './context.ts';

/**
 * Tells Celery workers that a task was cancelled: the ledger holds back only workers that ask it. Where remote control
 * must not change anything (`worker.celeryControl`), nothing is told. A broker that cannot be used is logged: the task is
 * cancelled all the same.
 */
export async function revokeElsewhere(
  context: Pick<Context, 'config' | 'log' | 'stores'>,
  id: string,
): Promise<void> {
  const { config, log } = context;
  const { celeryControl } = config.worker;
  if (config.broker === null || celeryControl === 'off' || celeryControl === 'inspect') return;
  try {
    await (await context.stores()).broker.revoke?.(id);
  } catch (error) {
    log.warn({ error, id }, 'Celery workers could not be told that a task is cancelled');
  }
}
