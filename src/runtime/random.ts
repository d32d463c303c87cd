import { randomBytes, randomUUID } from 'node:crypto';

/** The only source of randomness in the core, so that a seed replays a whole run. */
export interface Random {
  /** A number in [0, 1). */
  next(): number;
  /** A unique identifier: tokens, runs, incarnations. */
  token(): string;
}

const TOKEN_BYTES = 12;
const DRAWN_BYTES = TOKEN_BYTES * 256;
let drawn = Buffer.alloc(0);
let used = 0;

/** Drawn in advance by the hundred: one call each would cost more than the rest of a begin. */
function token(): string {
  if (used === drawn.length) {
    drawn = randomBytes(DRAWN_BYTES);
    used = 0;
  }
  used += TOKEN_BYTES;
  return drawn.toString('hex', used - TOKEN_BYTES, used);
}

export const systemRandom: Random = { next: () => Math.random(), token };

/** The range of the last four hexadecimal digits of the time: about a minute. */
const MINUTE_MS = 65_536;
let writtenMinute = -1;
let minuteText = '';

/**
 * A UUID of version 7: sorts by time, so that the primary-key index of a busy table grows at one end.
 * Task ids are made here; Celery takes any text as an id.
 */
export function uuidv7(nowMs: number): string {
  const ms = Math.floor(nowMs);
  const minute = Math.floor(ms / MINUTE_MS);
  // Only small integers convert fast to another base; the rest of the time changes once a minute.
  if (minute !== writtenMinute) {
    writtenMinute = minute;
    minuteText = minute.toString(16).padStart(8, '0');
  }
  const rest = (ms - minute * MINUTE_MS).toString(16).padStart(4, '0');
  // The random bits of a version 4, which Node draws in advance by the hundred; variant bits included.
  return `${minuteText}-${rest}-7${randomUUID().slice(15)}`;
}

/** When a task was created, by the clock of its sender; null: its id is no UUID of version 7. */
export function createdMs(id: string): number | null {
  if (id.length !== 36 || id[14] !== '7') return null;
  const ms = Number(`0x${id.slice(0, 8)}${id.slice(9, 13)}`);
  return Number.isNaN(ms) ? null : ms;
}
