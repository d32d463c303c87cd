import { describe, expect, it } from 'vitest';
import { makeEnvelope } from '../../test/conformance/envelopes.ts';
import { VirtualTime } from '../testing/virtual-time.ts';
import type { Envelope } from '../task/envelope.ts';
import type { PublishOutcome } from './broker.ts';
import { DestinationGuard } from './destination-guard.ts';

/** A broker whose queues answer after this many milliseconds; Infinity: never. */
function setup(answersAfterMs: Record<string, number>) {
  const time = new VirtualTime();
  const { clock } = time;
  const calls: { readonly queue: string; readonly messages: number }[] = [];
  const publish = (messages: readonly Envelope[]): Promise<readonly PublishOutcome[]> => {
    const queue = messages[0]?.queue ?? '';
    calls.push({ queue, messages: messages.length });
    const outcomes = messages.map((): PublishOutcome => ({ status: 'confirmed' }));
    const afterMs = answersAfterMs[queue] ?? 0;
    return new Promise(resolve => {
      if (afterMs < Infinity) time.after(afterMs, () => resolve(outcomes));
    });
  };
  const guard = new DestinationGuard({ publish, hasQueues: true }, clock);
  const outcomes = new Map<string, PublishOutcome & { readonly atMs: number }>();
  const send = (...queues: readonly string[]): void => {
    const messages = queues.map(queue => makeEnvelope({ queue }));
    for (const message of messages)
      void guard.publish([message], 10_000).then(([outcome]) => {
        if (outcome) outcomes.set(message.queue, { ...outcome, atMs: time.nowMs });
      });
  };
  return { time, guard, calls, outcomes, send, answersAfterMs };
}

describe('a destination that does not confirm', () => {
  it('delays its own messages for two seconds, and no others', async () => {
    const { time, guard } = setup({ stuck: Infinity, good: 5 });
    const sent = guard.publish(
      ['stuck', 'good', 'good'].map(queue => makeEnvelope({ queue })),
      10_000,
    );
    const alone = guard.publish([makeEnvelope({ queue: 'good' })], 10_000);
    await time.runUntil(10);
    expect(await alone).toEqual([{ status: 'confirmed' }]);
    await time.runUntil(2_000);
    const [stuck, ...good] = await sent;
    expect(stuck).toMatchObject({ status: 'unavailable', retryAfterMs: 1_000 });
    expect(good).toEqual([{ status: 'confirmed' }, { status: 'confirmed' }]);
  });

  it('is reported unavailable at once during its pause, then probed with one message', async () => {
    const { time, guard, calls, send } = setup({ stuck: Infinity });
    send('stuck', 'good');
    await time.runUntil(2_100);
    const many = Array.from({ length: 50 }, () => makeEnvelope({ queue: 'stuck' }));
    const held = await guard.publish(many, 10_000);
    expect(held.every(outcome => outcome.status === 'unavailable' && outcome.retryAfterMs)).toBe(
      true,
    );
    await time.runUntil(3_100);
    void guard.publish(many, 10_000);
    await time.runUntil(6_000);
    expect(calls.filter(({ queue }) => queue === 'stuck')).toEqual([
      { queue: 'stuck', messages: 1 },
      { queue: 'stuck', messages: 1 },
    ]);
  });

  it('gets all waiting messages as soon as it answers a probe', async () => {
    const { time, guard, calls, send, answersAfterMs } = setup({ stuck: Infinity });
    send('stuck', 'good');
    await time.runUntil(4_000);
    answersAfterMs['stuck'] = 1;
    const many = Array.from({ length: 50 }, () => makeEnvelope({ queue: 'stuck' }));
    const sent = guard.publish(many, 10_000);
    await time.runUntil(4_100);
    expect((await sent).every(({ status }) => status === 'confirmed')).toBe(true);
    expect(calls.slice(-2).map(({ messages }) => messages)).toEqual([1, 49]);
  });

  it('counts as slow when its answer comes late, and gets more time for the next one', async () => {
    const { time, outcomes, send } = setup({ slow: 4_000 });
    send('slow', 'good');
    await time.runUntil(2_500);
    expect(outcomes.get('slow')).toMatchObject({ status: 'unavailable' });
    await time.runUntil(4_500);
    send('slow', 'good');
    await time.runUntil(9_000);
    expect(outcomes.get('slow')).toEqual({ status: 'confirmed', atMs: 8_500 });
  });

  it('counts as a broker outage when no other destination has answered, and has the full time limit', async () => {
    const { time, outcomes, send } = setup({ stuck: Infinity });
    send('stuck');
    await time.runUntil(9_900);
    expect(outcomes.size).toBe(0);
    await time.runUntil(10_100);
    expect(outcomes.get('stuck')).toMatchObject({ status: 'unavailable', atMs: 10_000 });
    expect(outcomes.get('stuck')).not.toHaveProperty('retryAfterMs');
  });
});

describe('destination names from messages', () => {
  const many = (count: number, name: string): readonly string[] =>
    Array.from({ length: count }, (_, index) => `${name}-${index}`);

  it('are forgotten once they have answered, so that a new one does not share the delay of a stuck one', async () => {
    const { time, guard, send } = setup({ stuck: Infinity });
    send(...many(5_100, 'good'));
    await time.runUntil(100);
    const sent = guard.publish(
      ['stuck', 'new'].map(queue => makeEnvelope({ queue })),
      10_000,
    );
    await time.runUntil(5_000);
    expect(await sent).toMatchObject([{ status: 'unavailable' }, { status: 'confirmed' }]);
  });

  it('are handled as one destination when too many of them do not answer', async () => {
    const stuck = many(5_000, 'stuck');
    const { time, guard, calls, send } = setup(
      Object.fromEntries(stuck.map(queue => [queue, Infinity])),
    );
    send(...stuck);
    await time.runUntil(100);
    void guard.publish(
      ['one', 'two'].map(queue => makeEnvelope({ queue })),
      10_000,
    );
    await time.runUntil(200);
    expect(calls.slice(stuck.length)).toEqual([{ queue: 'one', messages: 2 }]);
  });
});
