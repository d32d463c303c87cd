import { describe, expect, it } from 'vitest';
import { TestQueue } from '../../../test/support/pushed-queue.ts';
import { VirtualTime } from '../../testing/virtual-time.ts';
import { PushWindows, type PushOptions } from './queue-windows.ts';

const SLOTS = 16;

function setup({ queues = 1, ackOn = 'commit' }: Partial<PushOptions> = {}) {
  const time = new VirtualTime();
  const windows = new PushWindows(time.clock, { concurrency: SLOTS, queues, ackOn });
  const join = (): TestQueue => {
    const queue = new TestQueue();
    return queue.obey(windows.join(queue, queues === 1));
  };
  const made = Array.from({ length: queues }, join);
  /** Runs so many tasks in a moment, of a queue that has enough of them. */
  const run = (queue: TestQueue, count: number): void => {
    queue.arrive(count);
    for (let left = count; left > 0; left -= SLOTS) {
      for (let n = 0; n < Math.min(left, SLOTS); n++) queue.takeOne();
      queue.end(Math.min(left, SLOTS));
    }
  };
  const pass = (ms: number): Promise<void> => time.runUntil(time.nowMs + ms);
  return { queue: made[0] as TestQueue, queues: made, run, pass };
}

/** As many tasks as 16 slots run in half a second, if each takes 250 ms or 12 ms. */
const [SHORT, VERY_SHORT] = [32, 640];

describe('the first window', () => {
  it('is the concurrency when there is one queue', () => {
    expect(setup().queue.sizes).toEqual([16]);
    expect(setup({ ackOn: 'begin' }).queue.sizes).toEqual([16]);
  });

  it('of several queues is a sixteenth of the slots with ackOn commit, and a quota with ackOn begin', () => {
    expect(setup({ queues: 3 }).queues.map(({ sizes }) => sizes)).toEqual([[1], [1], [1]]);
    const { queues } = setup({ queues: 3, ackOn: 'begin' });
    expect(queues.map(({ sizes }) => sizes)).toEqual([[6], [6], [6]]);
  });
});

describe('windows ahead', () => {
  it('are not opened while tasks are long', async () => {
    const { queue, run, pass } = setup();
    for (let second = 0; second < 5; second++) {
      run(queue, SHORT - 1);
      await pass(501);
    }
    expect(queue.sizes).toEqual([16]);
  });

  it('hold three times the slots while tasks are short, and twenty-eight times when they are very short', () => {
    const { queue, run } = setup();
    run(queue, SHORT);
    expect(queue.sizes).toEqual([16, 3 * 16]);
    run(queue, VERY_SHORT);
    expect(queue.sizes).toEqual([16, 3 * 16, 28 * 16]);
    run(queue, VERY_SHORT);
    expect(queue.sizes).toHaveLength(3);
  });

  it('are smaller for each of several queues, which borrow nothing meanwhile', () => {
    const { queue, run } = setup({ queues: 3 });
    run(queue, SHORT);
    expect(queue.sizes.at(-1)).toBe(3 * Math.ceil(16 / 3));
    const { length } = queue.windows;
    queue.arrive(100);
    while (queue.takeOne());
    expect(queue.windows).toHaveLength(length);
  });

  it('hold fewer messages when these are large, and are not opened when they are very large', () => {
    const { queue, run } = setup();
    queue.messageBytes = 2 ** 20;
    run(queue, VERY_SHORT);
    expect(queue.sizes.slice(1).every(size => size <= 32)).toBe(true);
    const other = setup();
    other.queue.messageBytes = 33 * 2 ** 20;
    other.run(other.queue, VERY_SHORT);
    expect(other.queue.sizes).toEqual([16]);
  });

  it('are opened once, also when the server is slow', () => {
    const { queue, run } = setup();
    queue.isSlow = true;
    run(queue, SHORT);
    run(queue, SHORT);
    expect(queue.windows.map(({ size }) => size)).toEqual([16, 3 * 16]);
  });

  it('are shut when a message has waited for a second, and their untaken messages are requeued', async () => {
    const { queue, run, pass } = setup();
    run(queue, SHORT);
    queue.arrive(100);
    queue.waitedMs = 999;
    await pass(251);
    expect(queue.sizes).toEqual([16, 48]);
    queue.waitedMs = 1_001;
    await pass(250);
    expect(queue.sizes).toEqual([16]);
    expect([queue.atHand, queue.givenBack]).toEqual([16, 48]);
  });

  it('are shut when untaken messages exceed 32 MiB', async () => {
    const { queue, run, pass } = setup();
    run(queue, SHORT);
    queue.messageBytes = 2 ** 20;
    queue.arrive(32);
    await pass(251);
    expect(queue.sizes).toEqual([16, 48]);
    queue.arrive(1);
    await pass(250);
    expect(queue.sizes).toEqual([16]);
  });

  it('stay shut for two seconds after messages were requeued, and open at once after a lost channel or a pause', async () => {
    const { queue, run, pass } = setup();
    run(queue, SHORT);
    await queue.pause();
    queue.resume();
    run(queue, SHORT);
    expect(queue.sizes).toEqual([16, 48]);
    queue.lose();
    queue.isConsuming = true;
    queue.resume();
    run(queue, SHORT);
    expect(queue.sizes).toEqual([16, 48]);
    queue.arrive(100);
    queue.waitedMs = 1_001;
    await pass(251);
    run(queue, SHORT);
    expect(queue.sizes).toEqual([16]);
    queue.waitedMs = 0;
    await pass(2_001);
    run(queue, SHORT);
    expect(queue.sizes).toEqual([16, 48]);
  });
});

describe('a queue', () => {
  it('is paused when a message has waited for two seconds with nothing ahead', async () => {
    const { queue, pass } = setup();
    queue.arrive(20);
    queue.waitedMs = 1_999;
    await pass(251);
    expect(queue.isPulling).toBe(false);
    queue.waitedMs = 2_001;
    await pass(250);
    expect(queue.isPulling).toBe(true);
    expect(queue.sizes).toEqual([]);
  });

  it('is not paused when its process stood still and could take no message', async () => {
    const time = new VirtualTime();
    let sleptMs = 0;
    const { clock } = time;
    const sleeper = { ...clock, monotonic: () => clock.monotonic() + sleptMs };
    const windows = new PushWindows(sleeper, { concurrency: SLOTS, queues: 1, ackOn: 'commit' });
    const queue = new TestQueue();
    queue.obey(windows.join(queue, true)).arrive(1);
    queue.waitedMs = sleptMs = 5_000;
    await time.runUntil(251);
    expect(queue.isPulling).toBe(false);
    await time.runUntil(501);
    expect(queue.isPulling).toBe(true);
  });

  it('that is paused is resumed when it is empty or its tasks are short', async () => {
    const { queue, run, pass } = setup();
    const { demand } = queue;
    await queue.pause();
    demand?.foundEmpty();
    expect([queue.isPulling, queue.sizes]).toEqual([false, [16]]);
    await queue.pause();
    await pass(501);
    demand?.acknowledged(SHORT - 1, null);
    expect(queue.isPulling).toBe(true);
    demand?.acknowledged(1, null);
    expect(queue.isPulling).toBe(false);
    run(queue, SHORT);
    expect(queue.sizes).toEqual([16, 48]);
  });

  it('that is paused is resumed when a pulled message was answered soon, but not after a long task', async () => {
    const { queue } = setup();
    await queue.pause();
    queue.demand?.acknowledged(1, 500);
    expect(queue.isPulling).toBe(true);
    queue.demand?.acknowledged(1, 499);
    expect(queue.isPulling).toBe(false);
  });

  it('that the worker has left is not resumed by acknowledgements and pulls', async () => {
    const { queue } = setup();
    queue.isAwaited = false;
    await queue.pause();
    queue.demand?.acknowledged(VERY_SHORT, 0);
    queue.demand?.foundEmpty();
    expect(queue.isPulling).toBe(true);
  });
});
