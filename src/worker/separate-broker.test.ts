import { describe, expect, it } from 'vitest';
import { MemoryBroker } from '../testing/memory/memory-broker.ts';
import { MemoryIdempotencyStore } from '../testing/memory/memory-idempotency-store.ts';
import { MemoryLedger } from '../testing/memory/memory-ledger.ts';
import { MemoryLedgerReads } from '../testing/memory/memory-ledger-reads.ts';
import type { Broker } from '../broker/broker.ts';
import { outlastError } from '../errors/error.ts';
import type { Envelope } from '../task/envelope.ts';
import { noFaults, type FaultPoint, type FaultPointName } from '../runtime/runtime.ts';
import { task } from '../task/define-task.ts';
import { unchecked } from '../task/standard-schema.ts';
import type { EventSink } from '../telemetry/events.ts';
import { silentLogger } from '../telemetry/logger.ts';
import { HOUR, makeEnvelope } from '../../test/conformance/envelopes.ts';
import { VirtualTime } from '../testing/virtual-time.ts';
import { defineHandler } from './handler.ts';
import { LoopHeartbeat } from './lease/heartbeat.ts';
import { Worker } from './worker.ts';

const away = (): Promise<never> =>
  Promise.reject(outlastError('ERR_STORE_UNAVAILABLE', { message: 'away', hint: '', fields: {} }));

/** A worker that consumes from a separate broker, with a ledger that can be cut off. */
function setup(
  ackOn: 'commit' | 'begin' = 'commit',
  taskMs: number | null = null,
  shutdownTimeoutMs = 0,
  isPushing = false,
) {
  const time = new VirtualTime();
  let sleptMs = 0;
  const clock = {
    now: () => time.nowMs + sleptMs,
    monotonic: () => time.nowMs + sleptMs,
    timer: (ms: number, fn: () => void) => time.after(ms, fn),
  };
  const store = new MemoryLedger({ clock });
  let [isAway, isFull] = [false, false];
  const [begin, park] = [store.begin.bind(store), store.park.bind(store)];
  store.begin = request => (isFull && request.messages.length > 0 ? away() : begin(request));
  store.park = items => (isFull ? away() : park(items));
  const ledger = new Proxy(store, {
    get: (target, key) => {
      const value: unknown = Reflect.get(target, key, target);
      if (typeof value !== 'function') return value;
      return (...args: unknown[]): unknown =>
        isAway ? away() : (value as (...given: unknown[]) => unknown).apply(target, args);
    },
  });
  const queueing = new MemoryBroker();
  const connection = queueing.connect();
  let acking = Promise.resolve();
  const calls = { published: 0, taken: 0, requeued: 0, givenBack: 0, acked: 0, subscribed: 0 };
  const broker: Broker = {
    publish: messages => {
      calls.published += messages.length;
      return connection.publish(messages);
    },
    take: async (queues, limit) => {
      const deliveries = await connection.take(queues, limit);
      calls.taken += deliveries.length;
      return deliveries;
    },
    ack: async deliveries => {
      await acking;
      calls.acked += deliveries.length;
      await connection.ack(deliveries);
    },
    requeue: async deliveries => {
      calls.requeued += deliveries.length;
      await connection.giveBack(deliveries);
    },
    giveBack: async deliveries => {
      calls.givenBack += deliveries.length;
      await connection.giveBack(deliveries);
    },
    ...(isPushing ? { pushWithin: () => undefined } : {}),
    onReady: (queues, hint) => {
      calls.subscribed += 1;
      const undo = connection.onReady(queues, hint);
      return () => {
        calls.subscribed -= 1;
        undo();
      };
    },
    close: () => connection.close(),
  };
  let token = 0;
  const random = { next: () => 0.5, token: () => `t${++token}` };
  let sleep: FaultPoint = noFaults;
  const faultPoint: FaultPoint = name => sleep(name);
  /** Like SIGSTOP and SIGCONT: clocks go on while the worker stands still. */
  const sleepAt = (point: FaultPointName, ms: number): void => {
    sleep = name => {
      if (name !== point) return undefined;
      sleep = noFaults;
      sleptMs += ms;
      return Promise.resolve();
    };
  };
  const duplicates: string[] = [];
  const emit: EventSink = (name, event) => {
    if (name === 'task:duplicate' && 'id' in event) duplicates.push(event.id);
  };
  const runtime = { clock, random, faultPoint, log: silentLogger, emit };
  const entered: string[] = [];
  let isLong = false;
  let finish: () => void = () => undefined;
  const finished = new Promise<void>(resolve => (finish = resolve));
  const handler = defineHandler(
    task('conformance.task', { args: unchecked<unknown[]>(), kwargs: unchecked<object>() }),
    (_, { id, epoch }) => {
      entered.push(`${id} ${epoch}`);
      return taskMs === null || isLong
        ? finished
        : new Promise<void>(resolve => void clock.timer(taskMs, resolve));
    },
    { door: () => ({ locksTask: false, pass: away, fence: away }), sendInside: away },
  );
  const worker = new Worker({
    ledger,
    broker,
    keys: { store: new MemoryIdempotencyStore(clock), reads: new MemoryLedgerReads(store) },
    handlers: new Map([['conformance.task', handler]]),
    runtime,
    heartbeat: new LoopHeartbeat(ledger, runtime, 1_000),
    settings: {
      queues: { q: 1 },
      concurrency: 5,
      leaseMs: 3_600_000,
      idleTimeMs: 1_000,
      shutdownTimeoutMs,
      dedupWindowMs: 60_000,
      resultTtlMs: 60_000,
      ackOn,
      process: 'p',
      host: 'h',
      pid: 1,
    },
  });
  const [stop, retiring] = [new AbortController(), new AbortController()];
  const running = worker.run(stop.signal, retiring.signal);
  const publish = async (): Promise<string> => {
    const message = makeEnvelope({ queue: 'q' });
    await connection.publish([message]);
    return message.id;
  };
  /** Adds a task to the ledger, like a retry or a task of a dead worker. */
  const comeBack = async (): Promise<string> => {
    const envelope = makeEnvelope({ queue: 'q' });
    await store.park([{ envelope, delayMs: 0 }]);
    return envelope.id;
  };
  const drain = (): void => stop.abort();
  const retire = (): void => retiring.abort();
  /** From now on tasks run until `finish`. */
  const lengthen = (): void => void (isLong = true);
  const end = async (): Promise<void> => {
    drain();
    await time.runUntil(time.nowMs + 60_000);
    await running;
  };
  /** Messages that arrive at the same moment. */
  const publishAll = (messages: readonly Envelope[]): Promise<unknown> =>
    connection.publish(messages);
  /** Acknowledgements hang until this is called. */
  const hang = (): (() => void) => {
    let goOn = (): void => undefined;
    acking = new Promise(resolve => (goOn = resolve));
    return goOn;
  };
  const stateOf = (id: string): string | undefined => store.state.records.get(id)?.state;
  const cut = (value: boolean): void => void (isAway = value);
  /** The ledger answers heartbeats and gives out tasks, and accepts no new ones. */
  const fill = (value: boolean): void => void (isFull = value);
  return {
    time,
    store,
    queueing,
    calls,
    entered,
    duplicates,
    publish,
    publishAll,
    comeBack,
    cut,
    fill,
    sleepAt,
    drain,
    retire,
    lengthen,
    hang,
    finish,
    stateOf,
    end,
  };
}

describe('a second message of a task that is done', () => {
  it('does not run, and is reported as a duplicate', async () => {
    const { time, entered, duplicates, publishAll, stateOf, finish, end } = setup();
    finish();
    const message = makeEnvelope({ queue: 'q' });
    await publishAll([message]);
    await time.runUntil(10_000);
    expect([stateOf(message.id), duplicates]).toEqual(['done', []]);
    await publishAll([message]);
    await time.runUntil(20_000);
    expect(entered).toHaveLength(1);
    expect(duplicates).toEqual([message.id]);
    await end();
  });
});

describe('a worker that cannot begin a message it has taken', () => {
  it('gives it back once, takes no other while the ledger is away, and goes on after that', async () => {
    const { time, queueing, calls, publish, cut, stateOf, end } = setup();
    await time.runUntil(1_000);
    cut(true);
    const id = await publish();
    await time.runUntil(9_000);
    expect(queueing.count()).toEqual({ queued: 0, held: 1 });
    await time.runUntil(120_000);
    expect(calls).toMatchObject({ taken: 1, givenBack: 1 });
    expect(queueing.count()).toEqual({ queued: 1, held: 0 });
    cut(false);
    await time.runUntil(140_000);
    expect(stateOf(id)).toBe('running');
    await end();
  });

  it('unsubscribes when it drains', async () => {
    const { time, calls, end } = setup();
    await time.runUntil(1_000);
    expect(calls.subscribed).toBe(1);
    await end();
    expect(calls.subscribed).toBe(0);
  });
});

describe('a ledger that renews leases and accepts no new tasks', () => {
  it.each([
    ['due', {}],
    ['not due', { etaMs: 200_000 }],
  ])(
    'keeps messages that are %s with the worker, which retries one of them before the others',
    async (_, at) => {
      const { time, queueing, calls, publishAll, fill, stateOf, finish, end } = setup();
      finish();
      await time.runUntil(1_000);
      fill(true);
      const messages = Array.from({ length: 40 }, () => makeEnvelope({ queue: 'q', ...at }));
      await publishAll(messages);
      await time.runUntil(25_000);
      expect(calls.givenBack).toBe(0);
      expect(calls.taken).toBeLessThanOrEqual(5);
      expect([queueing.count().held, calls.subscribed]).toEqual([calls.taken, 0]);
      const before = calls.taken;
      fill(false);
      while (stateOf(messages[0]?.id ?? '') === undefined) await time.runUntil(time.nowMs + 1);
      expect(calls.taken).toBe(before);
      await time.runUntil(300_000);
      expect(messages.map(({ id }) => stateOf(id))).toEqual(messages.map(() => 'done'));
      expect([calls.givenBack, calls.subscribed]).toEqual([0, 1]);
      await end();
    },
  );

  it('gets no messages from a worker that starts meanwhile', async () => {
    const { time, calls, publish, fill, stateOf, end } = setup();
    fill(true);
    const id = await publish();
    await time.runUntil(100_000);
    expect(calls).toMatchObject({ taken: 0, givenBack: 0, subscribed: 0 });
    fill(false);
    await time.runUntil(110_000);
    expect(stateOf(id)).toBe('running');
    await end();
  });

  it('makes a worker give a message back at once after it was declared dead', async () => {
    const { time, store, calls, publish, fill, stateOf, end } = setup();
    await time.runUntil(1_000);
    fill(true);
    const id = await publish();
    await time.runUntil(4_000);
    expect(calls).toMatchObject({ taken: 1, givenBack: 0 });
    await store.condemn({ kind: 'process', process: 'p' });
    await time.runUntil(8_000);
    expect(calls.givenBack).toBe(1);
    fill(false);
    await time.runUntil(30_000);
    expect(stateOf(id)).toBe('running');
    await end();
  });

  it('makes a worker give a message back after half of dedupWindow, and take no more', async () => {
    const { time, calls, publish, fill, end } = setup();
    await time.runUntil(1_000);
    fill(true);
    await publish();
    await time.runUntil(30_000);
    expect(calls).toMatchObject({ taken: 1, givenBack: 0 });
    await time.runUntil(60_000);
    expect(calls.givenBack).toBe(1);
    await time.runUntil(600_000);
    expect(calls).toMatchObject({ taken: 1, givenBack: 1, subscribed: 0 });
    await end();
  });
});

describe('a worker without a free slot', () => {
  it('unsubscribes from its queues after a second, and subscribes again when it has a free slot', async () => {
    const { time, calls, publish, finish, stateOf, end } = setup('commit', null, 0, true);
    for (let n = 0; n < 5; n++) await publish();
    await time.runUntil(900);
    expect(calls.subscribed).toBe(1);
    await time.runUntil(3_000);
    expect([calls.subscribed, calls.givenBack]).toEqual([0, 0]);
    finish();
    const id = await publish();
    await time.runUntil(5_000);
    expect([calls.subscribed, stateOf(id)]).toEqual([1, 'done']);
    await end();
  });
});

describe('the message of a running task', () => {
  it('is requeued without closing the subscription when its task is cancelled', async () => {
    const { time, store, queueing, calls, publish, finish, end } = setup();
    const id = await publish();
    await time.runUntil(1_500);
    await store.cancel(id);
    await time.runUntil(5_000);
    expect(queueing.count()).toEqual({ queued: 0, held: 0 });
    expect(calls).toMatchObject({ requeued: 1, givenBack: 0, acked: 1, subscribed: 1 });
    finish();
    await end();
  });

  it('is held until its run is settled', async () => {
    const { time, calls, publish, finish, end } = setup();
    await publish();
    await time.runUntil(300_000);
    expect(calls.acked).toBe(0);
    finish();
    await time.runUntil(301_000);
    expect(calls.acked).toBe(1);
    await end();
  });

  it('is acknowledged after ten minutes, and only once', async () => {
    const { time, calls, publish, finish, end } = setup();
    await publish();
    await time.runUntil(599_000);
    expect(calls.acked).toBe(0);
    await time.runUntil(602_000);
    expect(calls.acked).toBe(1);
    finish();
    await time.runUntil(603_000);
    expect(calls).toMatchObject({ acked: 1, givenBack: 0 });
    await end();
  });

  it('is acknowledged at once with ackOn: begin', async () => {
    const { time, queueing, calls, publish, stateOf, end } = setup('begin');
    const id = await publish();
    await time.runUntil(2_000);
    expect(stateOf(id)).toBe('running');
    expect(calls.acked).toBe(1);
    expect(queueing.count()).toEqual({ queued: 0, held: 0 });
    await end();
  });
});

describe('a task that comes back to the ledger', () => {
  it('does not wait until the broker is empty', async () => {
    const { time, queueing, publish, comeBack, stateOf, end } = setup('commit', 20);
    for (let n = 0; n < 1_000; n++) await publish();
    await time.runUntil(500);
    const ids = await Promise.all(Array.from({ length: 20 }, comeBack));
    await time.runUntil(1_200);
    expect(queueing.count().queued).toBeGreaterThan(500);
    expect(ids.map(stateOf)).toEqual(ids.map(() => 'done'));
    await end();
  });
});

describe('a worker that loses its incarnation while it acknowledges a batch', () => {
  it('calls no handler of that batch, because other workers own its tasks', async () => {
    const { time, store, entered, publishAll, hang, stateOf, end } = setup('commit', 10);
    const [known, taken] = [makeEnvelope({ queue: 'q' }), makeEnvelope({ queue: 'q' })];
    await publishAll([known]);
    await time.runUntil(1_000);
    expect(stateOf(known.id)).toBe('done');
    const goOn = hang();
    await publishAll([known, taken]);
    await time.runUntil(1_500);
    const record = store.state.records.get(taken.id);
    expect([record?.state, entered]).toEqual(['running', [`${known.id} 1`]]);
    await store.condemn({ kind: 'worker', worker: record?.worker ?? '' });
    await store.reap(10);
    // Long enough for a heartbeat to be refused.
    await time.runUntil(4_000);
    goOn();
    await time.runUntil(10_000);
    expect(stateOf(taken.id)).toBe('done');
    expect(entered).toEqual([`${known.id} 1`, `${taken.id} 2`]);
    await end();
  });
});

describe('messages that a worker has prefetched', () => {
  it('are given back when its slots are taken for long, so that other workers can run them', async () => {
    const { time, queueing, entered, publish, lengthen, finish, end } = setup('commit', 1);
    for (let n = 0; n < 500; n++) await publish();
    while (queueing.count().queued > 200) await time.runUntil(time.nowMs + 1);
    lengthen();
    const before = entered.length;
    while (entered.length < before + 5) await time.runUntil(time.nowMs + 1);
    expect(queueing.count().held).toBeGreaterThan(5);
    await time.runUntil(time.nowMs + 2_000);
    expect(queueing.count().held).toBe(5);
    finish();
    await end();
  });

  it.each(['drains', 'retires'] as const)(
    'are given back at once when it %s, while its tasks run on, and it takes no more',
    async how => {
      const kit = setup('commit', 1, 20_000);
      const { time, queueing, calls, entered, publish, lengthen, finish, stateOf, end } = kit;
      const ids: string[] = [];
      for (let n = 0; n < 500; n++) ids.push(await publish());
      const running = (): number => ids.filter(id => stateOf(id) === 'running').length;
      while (queueing.count().queued > 200) await time.runUntil(time.nowMs + 1);
      lengthen();
      const before = entered.length;
      while (entered.length < before + 5) await time.runUntil(time.nowMs + 1);
      // The rest was prefetched.
      expect(queueing.count().held).toBeGreaterThan(running());
      if (how === 'drains') kit.drain();
      else kit.retire();
      await time.runUntil(time.nowMs + 300);
      expect([running(), queueing.count().held, calls.subscribed]).toEqual([5, 5, 0]);
      finish();
      await end();
    },
  );
});

describe('a worker that sleeps', () => {
  it('between begin and handler for longer than its lease calls the handler under the next epoch only', async () => {
    const { time, entered, publish, sleepAt, finish, end } = setup();
    sleepAt('worker.begun-not-started', 2 * HOUR);
    const id = await publish();
    await time.runUntil(5_000);
    expect(entered).toEqual([`${id} 2`]);
    finish();
    await end();
  });

  it.each(['worker.committed-not-acked', 'worker.committed-not-followed'] as const)(
    'at %s leaves the follow-ups to recovery, which may have sent them meanwhile',
    async point => {
      const { time, store, calls, publishAll, sleepAt, finish, stateOf, end } = setup();
      finish();
      const follow = '{"callbacks":[{"task":"conformance.task","options":{"task_id":"follows"}}]}';
      const [prompt, late] = [0, 1].map(() => makeEnvelope({ queue: 'q', embed: follow }));
      await publishAll([prompt as Envelope]);
      await time.runUntil(5_000);
      expect([calls.published, store.state.after.size]).toEqual([1, 0]);
      sleepAt(point, 10_000);
      await publishAll([late as Envelope]);
      await time.runUntil(10_000);
      expect(stateOf(late?.id ?? '')).toBe('done');
      expect([calls.published, store.state.after.size]).toEqual([1, 1]);
      await end();
    },
  );
});

describe('a message that the store refuses', () => {
  const refusal = (): Promise<never> => Promise.reject(new Error('ERR invalid bulk length'));

  it.each(['commit', 'begin'] as const)(
    'is found and buried, and the other messages of its batch run (ackOn: %s)',
    async ackOn => {
      const { time, store, queueing, calls, entered, publishAll, end } = setup(ackOn, 10);
      const messages = Array.from({ length: 5 }, () => makeEnvelope({ queue: 'q' }));
      const guilty = messages[3] as Envelope;
      const begin = store.begin.bind(store);
      store.begin = request =>
        request.messages.some(({ id }) => id === guilty.id) ? refusal() : begin(request);
      await publishAll(messages);
      await time.runUntil(2_000);
      const others = messages.filter(message => message !== guilty);
      expect(entered.toSorted()).toEqual(others.map(({ id }) => `${id} 1`).toSorted());
      const letter = store.state.records.get(`${guilty.id}#${guilty.digest.slice(0, 16)}`);
      expect(letter).toMatchObject({ state: 'dead', why: 'ERR_INVARIANT' });
      expect(letter?.envelope?.body).toEqual(guilty.body);
      expect(letter?.error?.message).toContain('ERR invalid bulk length');
      expect(queueing.count()).toEqual({ queued: 0, held: 0 });
      expect(calls.givenBack).toBe(0);
      await end();
    },
  );

  it('is found among messages without a handler, and the others are set aside', async () => {
    const { time, store, queueing, publishAll, end } = setup('commit', 10);
    const messages = Array.from({ length: 3 }, () => makeEnvelope({ queue: 'q', name: 'unknown' }));
    const guilty = messages[1] as Envelope;
    const park = store.park.bind(store);
    store.park = items =>
      items.some(({ envelope }) => envelope.id === guilty.id) ? refusal() : park(items);
    await publishAll(messages);
    await time.runUntil(2_000);
    const kept = [...store.state.records.values()].map(({ id, state, refused }) =>
      refused === null ? `${id} ${state}` : `${id} set aside`,
    );
    const letter = `${guilty.id}#${guilty.digest.slice(0, 16)} dead`;
    const others = messages.filter(message => message !== guilty);
    expect(kept.toSorted()).toEqual(
      [letter, ...others.map(({ id }) => `${id} set aside`)].toSorted(),
    );
    expect(queueing.count()).toEqual({ queued: 0, held: 0 });
    await end();
  });

  it('is kept with its first bytes when the store refuses its dead letter too, also when it is not due yet', async () => {
    const { time, store, queueing, publishAll, end } = setup('commit', 10);
    const args = new TextEncoder().encode(`["${'x'.repeat(10_000)}"]`);
    const guilty = [
      makeEnvelope({ queue: 'q', args }),
      makeEnvelope({ queue: 'q', args, etaMs: 10 * HOUR }),
    ];
    const isGuilty = ({ body }: Envelope): boolean => body.length > 5_000;
    const [begin, bury, park] = [
      store.begin.bind(store),
      store.bury.bind(store),
      store.park.bind(store),
    ];
    store.begin = request => (request.messages.some(isGuilty) ? refusal() : begin(request));
    store.park = items =>
      items.some(({ envelope }) => isGuilty(envelope)) ? refusal() : park(items);
    store.bury = items =>
      items.some(item => item.kind === 'message' && isGuilty(item.envelope))
        ? refusal()
        : bury(items);
    await publishAll(guilty);
    await time.runUntil(2_000);
    const letters = [...store.state.records.values()];
    expect(letters.map(({ state, why }) => `${state} ${why}`)).toEqual([
      'dead ERR_MESSAGE_TOO_LARGE',
      'dead ERR_MESSAGE_TOO_LARGE',
    ]);
    expect(letters.map(({ envelope }) => envelope?.body.length)).toEqual([4_096, 4_096]);
    expect(queueing.count()).toEqual({ queued: 0, held: 0 });
    await end();
  });
});
