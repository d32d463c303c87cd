import { expect, it } from 'vitest';
import { MemoryIdempotencyStore } from '../../testing/memory/memory-idempotency-store.ts';
import type { RaiseReply } from '../../ledger/ledger.ts';
import { noFaults, systemClock, systemRandom } from '../../runtime/runtime.ts';
import { task } from '../../task/define-task.ts';
import { digestOf } from '../../task/digest.ts';
import { toBytes } from '../../task/json.ts';
import { Keyring, NO_KEYS } from '../../task/keyring.ts';
import { unchecked } from '../../task/standard-schema.ts';
import { silentLogger } from '../../telemetry/logger.ts';
import { claimKey } from './claim-key.ts';
import { defineHandler } from '../handler.ts';
import { RunStop } from './settlement.ts';

const pay = task('claim.pay', { input: unchecked<string>(), idempotent: true });
const handler = defineHandler(pay, () => undefined, {
  door: () => ({
    locksTask: false,
    pass: () => Promise.resolve(null),
    fence: () => Promise.resolve(),
  }),
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
const claimant = (raised: RaiseReply, run = begun) => ({
  task: run,
  stop: new RunStop(new AbortController().signal),
  ledger: { raiseEpoch: async () => raised },
});
const deps = (store = new MemoryIdempotencyStore(systemClock)) => ({
  handlers: new Map([[pay.name, handler]]),
  keys: { store, reads: { inspect: async () => null } },
  ledger: { wake: async () => undefined },
  runtime: {
    clock: systemClock,
    random: systemRandom,
    faultPoint: noFaults,
    log: silentLogger,
    emit: () => undefined,
  },
});
const secret = new Uint8Array(32).fill(7);

it.each([
  ['takes no key when signatures are required', new Keyring([{ id: 'k', secret }]), null],
  ['takes its key when signatures are not required', NO_KEYS, expect.anything() as unknown],
] as const)('a task without a signature %s', async (_, keyring, hold) => {
  const claim = await claimKey(claimant({ status: 'stale' }), { ...deps(), keyring });
  expect(claim).toEqual({ kind: 'run', hold });
});

it.each([
  ['gets the key when the ledger confirms that it is the owner', { status: 'ok', epoch: 2 }],
  ['is dropped when it is not the owner', { status: 'stale' }],
] as const)('a second run under one epoch %s', async (_, raised) => {
  const store = new MemoryIdempotencyStore(systemClock);
  const first = await claimKey(claimant({ status: 'stale' }), deps(store));
  expect(first).toMatchObject({ kind: 'run' });
  const other = { ...begun, run: 'other' };
  const second = await claimKey(claimant(raised, other), deps(store));
  const isRightful = raised.status === 'ok';
  expect(second).toMatchObject(
    isRightful ? { kind: 'run' } : { kind: 'refuse', settlement: { kind: 'drop' } },
  );
  // Only one of the two stores its result under the key.
  const holds = [first, second].map(claim => (claim.kind === 'run' ? claim.hold : null));
  const [key] = await store.review(0, 1);
  expect(key).toMatchObject(isRightful ? { epoch: 2, run: 'other' } : { epoch: 1, run: 'run' });
  for (const [n, hold] of holds.entries())
    await hold?.complete(`"${n}"`, new AbortController().signal);
  const kept = await store.read(key?.key ?? '');
  expect(kept).toMatchObject({ state: 'done', result: toBytes(isRightful ? '"1"' : '"0"') });
});
