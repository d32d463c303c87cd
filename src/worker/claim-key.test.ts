import { expect, it } from 'vitest';
import { MemoryIdempotencyStore } from '../adapters/memory/memory-idempotency-store.ts';
import { noFaults } from '../runtime/fault-point.ts';
import { systemClock } from '../runtime/clock.ts';
import { systemRandom } from '../runtime/random.ts';
import { task } from '../task/define-task.ts';
import { digestOf } from '../task/digest.ts';
import { toBytes } from '../task/json.ts';
import { Keyring, NO_KEYS } from '../task/keyring.ts';
import { unchecked } from '../task/standard-schema.ts';
import { silentLogger } from '../telemetry/logger.ts';
import { claimKey } from './claim-key.ts';
import { defineHandler } from './handler.ts';
import { RunStop } from './run-stop.ts';

const pay = task('claim.pay', { input: unchecked<string>(), idempotent: true });
const handler = defineHandler(pay, () => undefined, {
  door: () => ({ pass: () => Promise.resolve(null), fence: () => Promise.resolve() }),
  sendInside: () => Promise.resolve(''),
});
const identity = { id: 'one', name: pay.name, version: 1, body: toBytes('[["17"],{},null]') };
const envelope = {
  ...identity,
  queue: 'default',
  priority: 0,
  options: toBytes('{}'),
  digest: digestOf(identity),
  etaMs: null,
  expiresMs: null,
};
const begun = {
  id: envelope.id,
  epoch: 1,
  run: 'run',
  envelope,
  failures: 0,
  crashes: 0,
  isSuspect: false,
  checkpoint: null,
  checkpointSeq: 0,
};
const secret = new Uint8Array(32).fill(7);

it.each([
  ['takes no key where it had to be signed', new Keyring([{ id: 'k', secret }], []), null],
  ['takes its key where nothing is signed', NO_KEYS, expect.anything() as unknown],
] as const)('a task without a signature %s', async (_, keyring, hold) => {
  const runtime = {
    clock: systemClock,
    random: systemRandom,
    faultPoint: noFaults,
    log: silentLogger,
    emit: () => undefined,
  };
  const claim = await claimKey(begun, new RunStop(new AbortController().signal), {
    handlers: new Map([[pay.name, handler]]),
    keys: { store: new MemoryIdempotencyStore(systemClock), reads: { inspect: async () => null } },
    ledger: { wake: async () => undefined },
    keyring,
    runtime,
  });
  expect(claim).toEqual({ kind: 'run', hold });
});
