import { outlastError } from '../errors/error.ts';
import type { Permit } from '../task/define-task.ts';
import type { Limit } from './limits.ts';
import type { RateReservations } from './take-rates.ts';

/** How long a permit that was obtained before a transaction is kept. */
export const HOLD_MS = 30_000;

export interface PermitParts {
  readonly task: string;
  /** Null: nothing limits the task, so nothing is held. */
  readonly token: string | null;
  readonly rates: readonly Limit[];
  readonly reservations: RateReservations;
}

/** The result of `admit`. The store knows its token, and which task used it. */
export class HeldPermit implements Permit {
  readonly task: string;
  readonly #parts: PermitParts;
  #isCancelled = false;

  constructor(parts: PermitParts) {
    this.task = parts.task;
    this.#parts = parts;
  }

  async cancel(): Promise<void> {
    if (this.#isCancelled) return;
    this.#isCancelled = true;
    this.#parts.reservations.spare(this.#parts.rates);
    await this.#parts.reservations.refund();
  }

  /** The token, for a task that is under the same limits. */
  use(task: string, rates: readonly Limit[]): string | null {
    const keys = (limits: readonly Limit[]): string => limits.map(({ key }) => key).join(' ');
    if (task !== this.task) throw foreign(`the permit is for ${this.task}, not for ${task}`);
    if (this.#isCancelled) throw foreign('the permit was cancelled');
    if (this.#parts.token !== null && keys(rates) !== keys(this.#parts.rates))
      throw foreign(
        `the permit is for ${keys(this.#parts.rates)}, the task is under ${keys(rates)}`,
      );
    return this.#parts.token;
  }
}

/** The token of the given `permit`; null: there is none to confirm. */
export function permitToken(given: unknown, task: string, rates: readonly Limit[]): string | null {
  if (given === undefined) return null;
  if (given instanceof HeldPermit) return given.use(task, rates);
  throw foreign('`permit` is not what `outlast.admit` gave');
}

function foreign(message: string): Error {
  return outlastError('ERR_OPTIONS_CONFLICT', {
    message,
    hint: 'Ask for a permit with the same task, input, queue and tenant.',
    fields: { options: ['permit'] },
  });
}

/** The key used when the store itself is full. */
export const STORE_KEY = 'store:memory';
/** Tasks that were refused together return spread over this part of their wait, and over this time at least. */
const SPREAD = 0.25;
const LEAST_SPREAD_MS = 100;

/** Later, and not all at once. */
export function spread(waitMs: number, random: number): number {
  return Math.ceil(waitMs + Math.max(LEAST_SPREAD_MS, waitMs * SPREAD) * random);
}

export function rejected(name: string, key: string, retryAfterMs: number, why: string): Error {
  return outlastError('ERR_ADMISSION_REJECTED', {
    message: `${name} is not admitted now: ${why}`,
    hint: `Ask again in ${retryAfterMs} ms, or raise the limit.`,
    fields: { key, retryAfterMs },
  });
}
