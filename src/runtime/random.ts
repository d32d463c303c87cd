import { randomBytes } from 'node:crypto';

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
  const bytes = randomBytes(16);
  bytes.writeUIntBE(nowMs, 0, 6);
  bytes[6] = 0x70 | ((bytes[6] as number) & 0x0f);
  bytes[8] = 0x80 | ((bytes[8] as number) & 0x3f);
  const hex = bytes.toString('hex');
  return `${hex.slice(0, 8)}-${hex.slice(8, 12)}-${hex.slice(12, 16)}-${hex.slice(16, 20)}-${hex.slice(20)}`;
}
