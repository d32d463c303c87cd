import { describe, expect, it } from 'vitest';
import { MemoryBroker } from '../testing/memory/memory-broker.ts';
import { MemoryLedger } from '../testing/memory/memory-ledger.ts';
import type { PublishOutcome } from '../broker/broker.ts';
import { noFaults, systemRandom } from '../runtime/runtime.ts';
import type { Envelope } from '../task/envelope.ts';
import { encodeJson, toBytes } from '../task/json.ts';
import { readOptions } from '../task/read-options.ts';
import { silentLogger } from '../telemetry/logger.ts';
import { MINUTE, makeEnvelope, makeEnvelopes } from '../../test/conformance/envelopes.ts';
import { Refusals } from './refusals.ts';

/** A task that one worker has refused, as a resurrector sees it. */
interface Circumstances {
  readonly isSeparate?: boolean;
  readonly answer?: 'confirmed' | 'unavailable';
}

async function setup({ isSeparate = true, answer = 'confirmed' }: Circumstances = {}) {
  let nowMs = 1_000_000;
  const clock = {
    now: () => nowMs,
    monotonic: () => nowMs,
    timer: () => () => undefined,
  };
  const ledger = new MemoryLedger({ clock });
  const queue = new MemoryBroker().connect();
  const published: Envelope[] = [];
  const broker = {
    publish: async (messages: readonly Envelope[]): Promise<readonly PublishOutcome[]> => {
      published.push(...messages);
      return messages.map(() =>
        answer === 'confirmed' ? { status: answer } : { status: answer, error: 'away' },
      );
    },
    ...(isSeparate ? { silentMs: () => 0 } : {}),
  };
  const events: string[] = [];
  const emit = (name: string): void => void events.push(name);
  const runtime = { clock, random: systemRandom, faultPoint: noFaults, log: silentLogger, emit };
  const refusals = new Refusals({ ledger, broker, runtime, timeoutMs: 15 * MINUTE });
  const refuse = async (envelope: Envelope, worker: string): Promise<void> =>
    await ledger.park([{ envelope, delayMs: 0, refusedBy: worker }]);
  const envelope = makeEnvelope({ name: 'pay' });
  await refuse(envelope, 'host:1');
  const pass = async (ms: number): Promise<void> => {
    nowMs += ms;
    await refusals.look();
  };
  const record = () => ledger.state.records.get(envelope.id);
  return { envelope, ledger, queue, published, events, refuse, pass, record };
}

describe('a task that a worker refused', () => {
  it('goes back to a separate broker, later each time, with the workers that refused it', async () => {
    const { published, refuse, pass, record } = await setup();
    const waits: number[] = [];
    for (let time = 1; time <= 4; time++) {
      let waitedMs = 0;
      for (; published.length < time; waitedMs += 1_000) await pass(1_000);
      waits.push(waitedMs);
      expect(record()).toBeUndefined();
      await refuse(published.at(-1) as Envelope, `host:${time + 1}`);
    }
    expect(waits).toEqual([1_000, 2_000, 4_000, 8_000]);
    const { refused } = readOptions(published.at(-1) as Envelope);
    expect(refused).toEqual({
      times: 4,
      waitedMs: 15_000,
      by: ['host:1', 'host:2', 'host:3', 'host:4'],
    });
  });

  it('stays in the ledger until the broker has confirmed it', async () => {
    const { published, pass, record } = await setup({ answer: 'unavailable' });
    await pass(6_000);
    expect(published).toHaveLength(1);
    expect(record()?.state).toBe('waiting');
  });

  it('becomes a dead letter that names these workers when no worker has run it in time', async () => {
    const { events, published, refuse, pass, record } = await setup();
    await pass(14 * MINUTE);
    await refuse(published[0] as Envelope, 'host:2');
    await pass(2 * MINUTE);
    expect(record()).toMatchObject({ state: 'dead', why: 'ERR_TASK_UNKNOWN' });
    expect(record()?.error?.message).toBe(
      'no worker had a handler for pay (payload version 1) within 960 s; refused by host:1, host:2',
    );
    expect(events).toEqual(['task:dead-lettered']);
  });

  it('stays in the ledger when the ledger is the broker, and becomes a dead letter in time', async () => {
    const { published, pass, record } = await setup({ isSeparate: false });
    await pass(14 * MINUTE);
    expect([published, record()?.state]).toEqual([[], 'waiting']);
    await pass(2 * MINUTE);
    expect(record()?.state).toBe('dead');
  });

  it('is reached behind thousands of other refused tasks', async () => {
    const { ledger, refuse, pass } = await setup({ isSeparate: false });
    const many = makeEnvelopes(5_500, { name: 'pay' });
    await ledger.park(many.map(envelope => ({ envelope, delayMs: 0, refusedBy: 'host:1' })));
    // It arrived last, and has been refused for longer than the others.
    const refused = { times: 9, waitedMs: 20 * MINUTE, by: ['host:2'] };
    const options = toBytes(encodeJson({ refused }));
    const last = { ...makeEnvelope({ name: 'pay' }), options };
    await refuse(last, 'host:1');
    for (let looks = 0; looks < 2; looks += 1) await pass(2_000);
    expect(ledger.state.records.get(last.id)?.state).toBe('dead');
    expect(ledger.state.records.get(many[0]?.id ?? '')?.state).toBe('waiting');
  });

  it('is not touched when it was begun meanwhile', async () => {
    const { envelope, ledger, pass, record } = await setup();
    await ledger.open({ worker: 'w', process: 'p', host: 'h', pid: 1, leaseMs: 1e9 });
    const asked = { run: 'r', queues: [envelope.queue], limit: 1, suspects: 0, messages: [] };
    await ledger.begin({ worker: 'w', ...asked, crashBudgets: {}, runnable: { pay: 1 } });
    await pass(60 * MINUTE);
    expect(record()?.state).toBe('running');
  });
});
