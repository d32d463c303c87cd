import { describe, expect, it } from 'vitest';
import type { BegunTask } from '../../ledger/ledger.ts';
import { noFaults } from '../../runtime/runtime.ts';
import type { EventMap } from '../../telemetry/events.ts';
import { silentLogger } from '../../telemetry/logger.ts';
import { makeEnvelope } from '../../../test/conformance/envelopes.ts';
import { VirtualTime } from '../../testing/virtual-time.ts';
import { Outages } from './outages.ts';
import { wanting, type Settlement } from './settlement.ts';

const AWAY = wanting('store', new Error('ECONNREFUSED'));
const DONE: Settlement = { kind: 'commit', outcome: { kind: 'done', result: null }, value: 'null' };

function begun(name = 'shop.charge'): BegunTask {
  const envelope = makeEnvelope({ name });
  const { id } = envelope;
  const counts = { failures: 0, crashes: 0, checkpointSeq: 0 };
  return { id, epoch: 1, run: 'r', envelope, isSuspect: false, checkpoint: null, ...counts };
}

function setup() {
  const time = new VirtualTime();
  const { clock } = time;
  const logged: string[] = [];
  const log = {
    ...silentLogger,
    warn: (_: object, text: string) => void logged.push(text),
    info: (_: object, text: string) => void logged.push(text),
  };
  const released: EventMap['task:released'][] = [];
  const outages = new Outages({
    clock,
    random: { next: () => 1, token: () => '' },
    faultPoint: noFaults,
    log,
    emit: (name, event) => {
      if (name === 'task:released') released.push(event as EventMap['task:released']);
    },
  });
  const stop = { signal: new AbortController().signal };
  const end = async (task: BegunTask, settlement: Settlement): Promise<number | undefined> => {
    const ending = outages.postpone(task, settlement, stop);
    if (ending instanceof Promise) await time.runUntil(time.nowMs + 200);
    const ended = await ending;
    return ended.kind === 'release' ? ended.delayMs : undefined;
  };
  return { time, end, logged, released, outages, stop };
}

describe('a run that an outage prevents', () => {
  it('is released with a growing delay, up to half a minute', async () => {
    const { end, released } = setup();
    const task = begun();
    const delays: unknown[] = [];
    for (let n = 0; n < 8; n++) delays.push(await end(task, AWAY));
    expect(delays).toEqual([500, 1_000, 2_000, 4_000, 8_000, 16_000, 30_000, 30_000]);
    expect(released.map(({ releases }) => releases)).toEqual([1, 2, 3, 4, 5, 6, 7, 8]);
  });

  it('is delayed by the age of the outage when its task is new to this worker', async () => {
    const { time, end } = setup();
    await end(begun(), AWAY);
    await time.runUntil(20_000);
    expect(await end(begun(), AWAY)).toBe(16_000);
    expect(await end(begun('shop.mail'), AWAY)).toBe(500);
  });

  it('keeps its slot for 200 ms, so that a backlog is not begun for nothing', async () => {
    const { time, outages, stop } = setup();
    let isOver = false;
    const ending = Promise.resolve(outages.postpone(begun(), AWAY, stop)).then(
      () => (isOver = true),
    );
    await time.runUntil(199);
    expect(isOver).toBe(false);
    await time.runUntil(200);
    await ending;
  });

  it('is logged once for the whole outage, and once when the outage is over', async () => {
    const { end, logged } = setup();
    const [one, two] = [begun(), begun()];
    for (let n = 0; n < 5; n++) for (const task of [one, two]) await end(task, AWAY);
    expect(logged).toHaveLength(1);
    await end(begun('shop.mail'), DONE);
    expect(logged).toHaveLength(1);
    await end(one, DONE);
    expect(logged).toHaveLength(2);
    expect(await end(one, AWAY)).toBe(500);
  });
});
