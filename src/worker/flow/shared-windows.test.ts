import { describe, expect, it } from 'vitest';
import { TestQueue } from '../../../test/support/pushed-queue.ts';
import { PushWindows } from './queue-windows.ts';

function setup(slots: number, queues = 3) {
  let nowMs = 0;
  // Tasks are long: nothing is pushed ahead.
  const clock = { monotonic: () => (nowMs += 1_000), timer: () => () => undefined };
  const windows = new PushWindows(clock, { concurrency: slots, queues, ackOn: 'commit' });
  const made = Array.from({ length: queues }, () => {
    const queue = new TestQueue();
    return queue.obey(windows.join(queue, false));
  });
  const running = (): number => made.reduce((sum, queue) => sum + queue.running, 0);
  const order = [...made];
  const runs: TestQueue[] = [];
  /** Takes, first from the preferred queue, until all slots are used or nothing more comes. */
  const work = (preferred?: TestQueue): void => {
    for (let idle = 0; idle < 3 && running() < slots; idle++) {
      order.push(...order.splice(0, 1));
      const inTurn = preferred ? [preferred, ...order.filter(one => one !== preferred)] : order;
      for (const queue of inTurn) {
        if (running() >= slots || !queue.takeOne()) continue;
        runs.push(queue);
        idle = 0;
      }
    }
  };
  const held = (): number => made.reduce((sum, queue) => sum + queue.unacknowledged, 0);
  /** The task that runs longest. */
  const end = (): void => runs.shift()?.end(1);
  return { queues: made as [TestQueue, TestQueue, TestQueue], running, work, held, end };
}

describe('queues that share their windows', () => {
  it.each([1, 2, 10, 100])('hold at most %i messages, and two steps more for each queue', n => {
    const { queues, work, held, running, end } = setup(n);
    for (const queue of queues) queue.arrive(1_000);
    for (let turn = 0; turn < 50; turn++) {
      work();
      expect(running()).toBe(n);
      expect(held()).toBeLessThanOrEqual(n + 3 * 2 * Math.ceil(n / 16));
      end();
    }
    expect(queues.every(({ ready }) => ready < 1_000)).toBe(true);
  });

  it('give all slots to the only queue that has work, also when another queue had them before', () => {
    const { queues, work, running } = setup(10);
    const [first, second] = queues;
    for (const queue of [first, second]) {
      queue.arrive(100);
      work();
      expect(queue.running).toBe(10);
      queue.ready = 0;
      while (queue.unacknowledged > 0) {
        if (queue.atHand > 0) queue.takeOne();
        queue.end(1);
      }
      expect(running()).toBe(0);
    }
  });

  it('reach equal shares after one of them had all slots', () => {
    const { queues, work, end } = setup(12, 2);
    const [first, second] = queues;
    first.arrive(1_000);
    work();
    second.arrive(1_000);
    for (let turn = 0; turn < 200; turn++) {
      end();
      work();
    }
    for (const queue of queues) expect(queue.running).toBeGreaterThanOrEqual(5);
  });

  it('divide the slots by weight when they are chosen by weight', () => {
    const { queues, work, end } = setup(20, 2);
    const [heavy, light] = queues;
    for (const queue of [light, heavy]) {
      queue.arrive(5_000);
      work();
    }
    for (let turn = 0; turn < 1_000; turn++) {
      end();
      work(turn % 5 === 0 ? light : heavy);
    }
    // 16 and 4, were every choice a free one.
    expect(heavy.running).toBeGreaterThanOrEqual(14);
    expect(light.running).toBeGreaterThanOrEqual(3);
  });

  it('get the unused part of a shut window at once, and the rest as its messages are answered', () => {
    const { queues } = setup(16, 2);
    const [first, second] = queues;
    const take = (queue: TestQueue, most = Infinity): number => {
      for (let n = 0; n < most && queue.takeOne(); n++);
      return queue.running;
    };
    first.arrive(10);
    second.arrive(100);
    expect([take(first, 9), take(second, 9)]).toEqual([9, 9]);
    first.end(6);
    // It holds four of nine.
    expect(take(second)).toBe(10 + 5);
    expect(first.sizes).toEqual([1]);
    first.end(1);
    expect(take(second)).toBe(10 + 5 + 1);
  });

  it('get back the windows of a closed channel, exactly once', () => {
    const { queues, work, held } = setup(10);
    const [first, second] = queues;
    first.arrive(100);
    work();
    first.lose();
    first.end(3);
    second.arrive(100);
    while (second.takeOne());
    expect(second.unacknowledged).toBe(14);
    expect(held()).toBe(14);
  });
});
