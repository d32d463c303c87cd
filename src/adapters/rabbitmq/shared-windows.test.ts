import { describe, expect, it } from 'vitest';
import { BorrowedWindows } from './borrowed-windows.ts';
import { SharedWindows } from './shared-windows.ts';

/** A queue as its consumer sees it. The server fills every window while the queue has messages. */
class Queue {
  isConsuming = true;
  untaken = 0;
  ready = 0;
  readonly borrowed: BorrowedWindows;
  readonly #holds = new Map<number, number>();
  readonly #windows = new Map<number, { size: number; onMessage: (tag: number) => void }>();
  #tags = 0;
  #consumers = 0;

  constructor(pool: SharedWindows) {
    this.borrowed = new BorrowedWindows(pool, this);
    this.#windows.set(0, { size: pool.step, onMessage: () => undefined });
  }

  get held(): number {
    return this.#holds.size;
  }

  state(): this {
    return this;
  }

  open(size: number, onMessage: (tag: number) => void): Promise<() => Promise<void>> {
    const consumer = ++this.#consumers;
    this.#windows.set(consumer, { size, onMessage });
    this.#push();
    return Promise.resolve(() => Promise.resolve(void this.#windows.delete(consumer)));
  }

  arrive(count: number): void {
    this.ready += count;
    this.#push();
  }

  /** Takes one, like a worker with a free slot. */
  takeOne(): boolean {
    const hasMessage = this.untaken > 0;
    if (hasMessage) this.untaken -= 1;
    this.borrowed.look();
    return hasMessage;
  }

  endOne(): void {
    const [tag = 0] = this.#holds.keys();
    this.#holds.delete(tag);
    this.borrowed.release([tag]);
    this.#push();
  }

  #push(): void {
    for (const [consumer, { size, onMessage }] of this.#windows)
      while (this.ready > 0 && this.#heldBy(consumer) < size) {
        this.ready -= 1;
        this.untaken += 1;
        const tag = ++this.#tags;
        this.#holds.set(tag, consumer);
        onMessage(tag);
      }
  }

  #heldBy(consumer: number): number {
    return [...this.#holds.values()].filter(holder => holder === consumer).length;
  }
}

const settled = async (): Promise<void> => {
  for (let tick = 0; tick < 10; tick++) await Promise.resolve();
};

function setup(slots: number, queues = 3) {
  const pool = new SharedWindows(slots);
  const made = Array.from({ length: queues }, () => new Queue(pool));
  const running = (): number => made.reduce((sum, { held, untaken }) => sum + held - untaken, 0);
  const order = [...made];
  const runs: Queue[] = [];
  /** Takes, first from the preferred queue, until all slots are used or nothing more comes. */
  const work = async (preferred?: Queue): Promise<void> => {
    for (let idle = 0; idle < 3 && running() < slots; idle++) {
      order.push(...order.splice(0, 1));
      const inTurn = preferred ? [preferred, ...order.filter(one => one !== preferred)] : order;
      for (const queue of inTurn) {
        if (running() >= slots || !queue.takeOne()) continue;
        runs.push(queue);
        idle = 0;
      }
      await settled();
    }
  };
  const held = (): number => made.reduce((sum, queue) => sum + queue.held, 0);
  /** Ends the task that has run longest. */
  const end = (): void => runs.shift()?.endOne();
  return { queues: made as [Queue, Queue, Queue], running, work, held, end };
}

describe('queues that share their windows', () => {
  it.each([1, 2, 10, 100])(
    'hold at most %i messages, and two steps more for each queue',
    async n => {
      const { queues, work, held, running, end } = setup(n);
      for (const queue of queues) queue.arrive(1_000);
      for (let turn = 0; turn < 50; turn++) {
        await work();
        expect(running()).toBe(n);
        expect(held()).toBeLessThanOrEqual(n + 3 * 2 * Math.ceil(n / 16));
        end();
      }
      expect(queues.every(({ ready }) => ready < 1_000)).toBe(true);
    },
  );

  it('give all slots to the only queue that has work, also when another queue had them before', async () => {
    const { queues, work, running } = setup(10);
    const [first, second] = queues;
    for (const queue of [first, second]) {
      queue.arrive(100);
      await work();
      expect(queue.held - queue.untaken).toBe(10);
      queue.ready = 0;
      while (queue.held > 0) {
        if (queue.untaken > 0) queue.takeOne();
        queue.endOne();
      }
      await settled();
      expect(running()).toBe(0);
    }
  });

  it('reach equal shares after one of them had all slots', async () => {
    const { queues, work, end } = setup(12, 2);
    const [first, second] = queues;
    first.arrive(1_000);
    await work();
    second.arrive(1_000);
    for (let turn = 0; turn < 200; turn++) {
      end();
      await work();
    }
    for (const queue of queues) expect(queue.held - queue.untaken).toBeGreaterThanOrEqual(5);
  });

  it('divide the slots by weight when they are chosen by weight', async () => {
    const { queues, work, end } = setup(20, 2);
    const [heavy, light] = queues;
    for (const queue of [light, heavy]) {
      queue.arrive(5_000);
      await work();
    }
    for (let turn = 0; turn < 1_000; turn++) {
      end();
      await work(turn % 5 === 0 ? light : heavy);
    }
    // It would be 16 and 4 if every choice were free.
    expect(heavy.held - heavy.untaken).toBeGreaterThanOrEqual(14);
    expect(light.held - light.untaken).toBeGreaterThanOrEqual(3);
  });

  it('get back the windows of a closed channel, exactly once', async () => {
    const { queues, work, held } = setup(10);
    const [first, second] = queues;
    first.arrive(100);
    await work();
    first.isConsuming = false;
    first.borrowed.drop();
    first.borrowed.release([1, 2, 3]);
    await first.borrowed.shutAll();
    second.arrive(100);
    while (second.takeOne()) await settled();
    expect(second.borrowed.window).toBe(14);
    expect(held() - first.held).toBe(14);
  });
});
