import { digestOf } from '../../src/task/digest.ts';
import type { Envelope } from '../../src/task/envelope.ts';
import { toBytes } from '../../src/task/json.ts';
import { Keyring } from '../../src/task/keyring.ts';
import { readOptions } from '../../src/task/read-options.ts';

const KEY = { id: 'sim', secret: new Uint8Array(32).fill(1) };

/** The key of all processes of the fleet. */
export const KEYRING: Keyring = new Keyring([KEY]);

/** The mistake: a message is begun, and judged when it runs. */
export const LATE_KEYRING: Keyring = new (class extends Keyring {
  override refusalOnArrival(): null {
    return null;
  }
})([KEY]);

export function signed(envelope: Envelope, nowMs: number): Envelope {
  const options = readOptions(envelope);
  const signature = KEYRING.sign({ ...envelope, options }, nowMs);
  return { ...envelope, options: toBytes(JSON.stringify({ ...options, signature })) };
}

/** What an attacker without a key puts into the queue of a task whose id is known. */
export function forgeryOf({ id, name, queue }: Envelope): Envelope {
  const body = toBytes(
    '[["forged"],{},{"callbacks":null,"errbacks":null,"chain":null,"chord":null}]',
  );
  const digest = digestOf({ name, id, version: 1, body });
  const rest = { priority: 9, version: 1, etaMs: null, expiresMs: null };
  return { id, name, queue, ...rest, body, digest, options: toBytes('{}') };
}
