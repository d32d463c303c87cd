import { describe, expect, it } from 'vitest';
import { Flow } from './flow.ts';

function setup({ concurrency = 4, hasBroker = true } = {}) {
  let nowMs = 1_000;
  const counts = { slots: { used: 0 }, batches: { promised: 0 }, runs: { size: 0, bytes: 0 } };
  const flow = new Flow({ monotonic: () => nowMs }, { concurrency, hasBroker }, counts);
  const run = (ms: number, bytes = 100): void => {
    for (let n = 0; n < 200; n++) flow.ran(ms, bytes);
  };
  /** A batch for which the ledger was asked for `ofLedger` tasks and gave `byLedger`. */
  const ledgerGave = (ofLedger: number, byLedger: number): void =>
    flow.begun(
      Array.from({ length: byLedger }, () => ({ crashes: 0 })),
      { messages: 0, ofLedger, byLedger },
    );
  return { flow, counts, run, ledgerGave, pass: (ms: number) => (nowMs += ms) };
}

describe('overcommit', () => {
  it('grows as tasks get shorter, so that none waits long for its slot', () => {
    const { flow, run } = setup();
    const overcommit = [1_000, 50, 20, 10, 4, 1].map(ms => {
      run(ms);
      return flow.overcommit;
    });
    expect(overcommit).toEqual([1, 1, 1, 3, 9, 16]);
  });

  it('is smaller when there is no broker, because crashed tasks come back to the ledger at once', () => {
    const { flow, run } = setup({ hasBroker: false });
    run(1);
    expect(flow.overcommit).toBe(8);
  });

  it('is 1 while tasks come back from crashes', () => {
    const { flow, run } = setup();
    const asked = { messages: 2, ofLedger: 0, byLedger: 0 };
    run(1);
    flow.begun([{ crashes: 0 }, { crashes: 0 }], asked);
    expect(flow.overcommit).toBe(16);
    flow.begun([{ crashes: 0 }, { crashes: 1 }], asked);
    expect(flow.overcommit).toBe(1);
    run(1);
    expect(flow.overcommit).toBe(16);
  });

  it('is 1 when tasks are large, and very large ones are not prefetched', () => {
    const { flow, run } = setup();
    run(1, 12 * 2 ** 20);
    expect([flow.overcommit, flow.prefetch(0)]).toEqual([1, 2]);
    run(1, 40 * 2 ** 20);
    expect([flow.overcommit, flow.prefetch(0)]).toEqual([1, 0]);
    // The sizes of earlier tasks count less and less.
    for (let turn = 0; turn < 5; turn++) run(1);
    expect(flow.overcommit).toBe(16);
  });
});

describe('the number of tasks that may be begun', () => {
  it('counts tasks that run, that wait for a slot, that are being begun and that are being settled', () => {
    const { flow, counts, run } = setup();
    expect(flow.free).toBe(4);
    counts.slots.used = 5;
    expect(flow.free).toBe(-1);
    run(10);
    expect(flow.free).toBe(3 * 4 - 5);
    counts.batches.promised = 2;
    expect(flow.free).toBe(3 * 4 - 5 - 2);
    counts.runs.size = 21;
    expect(flow.free).toBe(2 * 3 * 4 - 21 - 2);
  });

  it('is 0 while begun tasks use too much memory, however many slots are free', () => {
    const { flow, counts } = setup({ concurrency: 50 });
    counts.runs.size = counts.slots.used = 8;
    counts.runs.bytes = 127 * 2 ** 20;
    expect(flow.free).toBe(42);
    counts.runs.bytes = 128 * 2 ** 20;
    expect(flow.free).toBe(0);
  });

  it('is split between two batches, none larger than the limit of a store', () => {
    const sizes = [1, 50, 400, 10_000].map(concurrency => {
      const { flow } = setup({ concurrency });
      return flow.planBatch(concurrency).size;
    });
    expect(sizes).toEqual([1, 25, 200, 500]);
  });

  it('makes the worker unsubscribe when it was 0 for a second', () => {
    const { flow, pass } = setup();
    expect(flow.untilLeaving()).toBe(1_000);
    pass(600);
    expect(flow.untilLeaving()).toBe(400);
    flow.planBatch(1);
    expect(flow.untilLeaving()).toBe(1_000);
    pass(1_500);
    expect(flow.untilLeaving()).toBe(0);
  });
});

describe('the quota of the ledger', () => {
  const ofLedger = (flow: Flow, free: number): number => {
    const { size, fromBroker } = flow.planBatch(free);
    return size - fromBroker;
  };

  it('is half of a batch five times a second, and 0 in between while the ledger has no tasks', () => {
    const { flow, ledgerGave, pass } = setup({ concurrency: 100 });
    expect(ofLedger(flow, 50)).toBe(25);
    ledgerGave(25, 0);
    expect(ofLedger(flow, 50)).toBe(0);
    ledgerGave(0, 0);
    pass(200);
    expect(ofLedger(flow, 9)).toBe(4);
  });

  it('stays while the ledger returns as many tasks as it was asked for', () => {
    const { flow, ledgerGave } = setup({ concurrency: 100 });
    ofLedger(flow, 10);
    ledgerGave(5, 5);
    expect(ofLedger(flow, 10)).toBe(5);
    ledgerGave(5, 4);
    expect(ofLedger(flow, 10)).toBe(0);
  });

  it('is at most the concurrency, until the ledger has shown that it has more', () => {
    const { flow, ledgerGave, run } = setup({ concurrency: 50 });
    run(1);
    expect([ofLedger(flow, 400), flow.ledgerLimit(400)]).toEqual([50, 50]);
    ledgerGave(50, 50);
    expect([ofLedger(flow, 400), flow.ledgerLimit(400)]).toEqual([200, 400]);
    ledgerGave(200, 199);
    expect(flow.ledgerLimit(400)).toBe(50);
  });

  it('alternates with the broker when there is a single slot', () => {
    const { flow, ledgerGave } = setup({ concurrency: 1 });
    const turns = [1, 2, 3, 4].map(() => {
      const quota = ofLedger(flow, 1);
      ledgerGave(quota, quota);
      return quota;
    });
    expect(turns).toEqual([1, 0, 1, 0]);
  });
});

describe('prefetch', () => {
  it('is 0 before tasks are known to be short', () => {
    const { flow, run } = setup();
    expect(flow.prefetch(0)).toBe(0);
    run(100);
    expect(flow.prefetch(0)).toBe(0);
  });

  it('refills two batches when half of them is begun', () => {
    const { flow, run } = setup();
    run(15);
    expect([0, 4, 5].map(atHand => flow.prefetch(atHand))).toEqual([8, 4, 0]);
  });

  it('stops when messages at hand were not begun in time', () => {
    const { flow, run } = setup();
    run(1);
    flow.tasksAreLong();
    expect(flow.prefetch(0)).toBe(0);
  });
});
