import type { ErrorRecord } from './follow-up-log.ts';

/**
 * How the worker ended that a task has lost. `lease-lost` and `host-lost` are conclusions: nobody saw it end, its lease was
 * over. `left`: it said goodbye while it still had runs.
 */
export type DeathKind =
  | 'exited'
  | 'signal'
  | 'out-of-memory'
  | 'stuck-loop'
  | 'shutdown-timeout'
  | 'lease-lost'
  | 'host-lost'
  | 'left';

/** How a worker ended, for people. */
export interface Death {
  readonly kind: DeathKind;
  readonly message: string;
}

/** Whoever closed it did not say more. */
const ENDED: Death = { kind: 'exited', message: 'its process ended' };
export const LEFT: Death = { kind: 'left', message: 'it left before its runs had ended' };
export const LEASE_LOST: Death = {
  kind: 'lease-lost',
  message: 'its lease was over: it was killed, paused or cut off from the store',
};
/** No other worker of the host has a lease. */
export const HOST_LOST: Death = {
  kind: 'host-lost',
  message:
    'its lease was over, and no worker of its host reports: the host, its network or its supervisor is gone',
};

/** It ended by itself, as it does when it is asked to. */
export const ASKED: Death = { kind: 'exited', message: 'exit code 0' };
export const isAsked = ({ kind, message }: Death): boolean =>
  kind === ASKED.kind && message === ASKED.message;

/** What is known of the end of an incarnation that is closed for this reason. */
export function deathBy(target: {
  readonly kind: 'expired' | 'process' | 'worker';
  readonly death?: Death;
}): Death {
  if (target.kind === 'expired') return LEASE_LOST;
  return target.kind === 'worker' ? LEFT : (target.death ?? ENDED);
}

/** As a line of a history has it, in the place of an error. */
export function recordOfDeath({ kind, message }: Death): ErrorRecord {
  return { type: kind, message, traceback: '' };
}

export function encodeDeath(death: Death): string {
  return JSON.stringify(recordOfDeath(death));
}

/** Null: an older version closed the worker. */
export function readDeath(text: string | null): Death | null {
  if (text === null || text === '') return null;
  try {
    const { type, message } = JSON.parse(text) as Partial<ErrorRecord>;
    return { kind: type as DeathKind, message: message ?? '' };
  } catch {
    return null;
  }
}
