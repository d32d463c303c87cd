import type { Endpoint } from '../remote/wire.ts';
import type { ProcessIdentity } from './process-identity.ts';

/** The content of a lock file. */
export interface LockRecord {
  readonly state: 'held' | 'released';
  readonly holder: ProcessIdentity;
  /** Where the holder serves its database; null before it does. */
  readonly endpoint: Endpoint | null;
}

export function writeLockRecord(record: LockRecord): string {
  return `${JSON.stringify(record, null, 2)}\n`;
}

/** Null when the text is not ours: an unreadable lock counts as held. */
export function parseLockRecord(text: string): LockRecord | null {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {
    // Lock files appear complete or not at all, so another program has cut this one.
    return null;
  }
  return isLockRecord(value) ? value : null;
}

function isLockRecord(value: unknown): value is LockRecord {
  if (!isObject(value) || !isObject(value['holder'])) return false;
  const { state, holder, endpoint } = value;
  return (
    (state === 'held' || state === 'released') &&
    // Signals to pid 0 and below reach whole groups of processes.
    typeof holder['pid'] === 'number' &&
    Number.isSafeInteger(holder['pid']) &&
    holder['pid'] > 0 &&
    typeof holder['host'] === 'string' &&
    ['startTicks', 'bootId', 'pidNamespace'].every(key => isTextOrNull(holder[key])) &&
    (endpoint === null || isEndpoint(endpoint))
  );
}

function isEndpoint(value: unknown): value is Endpoint {
  return isObject(value) && typeof value['port'] === 'number' && typeof value['token'] === 'string';
}

function isTextOrNull(value: unknown): boolean {
  return value === null || typeof value === 'string';
}

function isObject(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === 'object' && value !== null;
}
