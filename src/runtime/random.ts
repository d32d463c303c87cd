import { randomBytes, randomUUID } from 'node:crypto';

/** The only source of chance in the core, so that a seed replays a whole run. */
export interface Random {
  /** A number in [0, 1). */
  next(): number;
  /** An identifier nobody else will draw: tokens, runs, incarnations. */
  token(): string;
}

export const systemRandom: Random = {
  next: () => Math.random(),
  token: () => randomBytes(12).toString('hex'),
};

/**
 * A UUID of version 7: sorts by time, so that the primary-key index of a busy table grows at one end.
 * Task ids are made here; Celery takes any text as an id.
 */
export function uuidv7(nowMs: number): string {
  const time = Math.floor(nowMs).toString(16).padStart(12, '0');
  // The chance of a version 4, which Node draws in advance by the hundred; variant bits and all.
  return `${time.slice(0, 8)}-${time.slice(8)}-7${randomUUID().slice(15)}`;
}
