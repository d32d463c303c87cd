import { describe, expect, it } from 'vitest';
import { makeEnvelope } from '../../../test/conformance/envelopes.ts';
import { VirtualTime } from '../../testing/virtual-time.ts';
import { MemoryLedger } from '../../testing/memory/memory-ledger.ts';
import type { AfterEntry } from '../../ledger/ledger.ts';
import { noFaults, systemRandom } from '../../runtime/runtime.ts';
import { NO_KEYS } from '../../task/keyring.ts';
import { noEvents } from '../../telemetry/events.ts';
import { silentLogger } from '../../telemetry/logger.ts';
import { FollowUpSender } from './follow-up-sender.ts';

const followUps = (count: number): readonly AfterEntry[] =>
  Array.from({ length: count }, (_, index) => ({ key: `k${index}`, publish: makeEnvelope() }));

/** A sender on a broker that confirms, or never does. */
function setup({ confirms }: { readonly confirms: boolean }) {
  const time = new VirtualTime();
  const { clock } = time;
  const ledger = new MemoryLedger({ clock });
  const calls = { published: 0 };
  const sender = new FollowUpSender({
    broker: {
      publish: messages => {
        calls.published += messages.length;
        const outcomes = messages.map(() => ({ status: 'confirmed' as const }));
        return confirms ? Promise.resolve(outcomes) : new Promise(() => undefined);
      },
    },
    ledger,
    runtime: {
      clock,
      random: systemRandom,
      faultPoint: noFaults,
      log: silentLogger,
      emit: noEvents,
    },
  });
  const follow = { nowMs: 0, queueOf: () => null, redact: null, keyring: NO_KEYS, answers: false };
  const send = (entries: readonly AfterEntry[], settledAt = time.nowMs): void =>
    sender.send(entries, settledAt, follow);
  return { time, ledger, sender, send, calls };
}

describe('follow-ups of a worker', () => {
  it('are left to a resurrector when the worker has slept since they were stored', async () => {
    const { time, send, calls } = setup({ confirms: true });
    await time.runUntil(10_000);
    send(followUps(1), 7_000);
    await time.runUntil(11_000);
    expect(calls.published).toBe(0);
    send(followUps(1), 10_500);
    await time.runUntil(12_000);
    expect(calls.published).toBe(1);
  });

  it('are left to a resurrector when a thousand are being sent, unless they belong to one task', async () => {
    const { time, send, calls } = setup({ confirms: false });
    send(followUps(1_200));
    send(followUps(1));
    await time.runUntil(100);
    expect(calls.published).toBe(1_200);
  });

  it('delay the end of a worker by at most five seconds', async () => {
    const { time, ledger, sender, send } = setup({ confirms: true });
    ledger.after.strike = () => new Promise(() => undefined);
    send(followUps(1));
    let isOver = false;
    void sender.over().then(() => (isOver = true));
    await time.runUntil(4_900);
    expect(isOver).toBe(false);
    await time.runUntil(5_100);
    expect(isOver).toBe(true);
  });
});
