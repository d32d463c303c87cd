import { describe, expect, it } from 'vitest';
import type { AnswerMessage, EventMessage, Fleet, RequestMessage } from '../broker/fleet.ts';
import { outlastError } from '../errors/error.ts';
import type { BegunTask, CancelStatus } from '../ledger/ledger.ts';
import type { LifeState } from '../result/result-store.ts';
import { noFaults } from '../runtime/runtime.ts';
import { digestOf } from '../task/digest.ts';
import type { Envelope } from '../task/envelope.ts';
import { toBytes } from '../task/json.ts';
import { noEvents } from '../telemetry/events.ts';
import { silentLogger } from '../telemetry/logger.ts';
import type { Settlement } from '../worker/run/settlement.ts';
import type { Worker } from '../worker/worker.ts';
import { celeryEvents } from '../../test/support/fleet-vectors.ts';
import { VirtualTime } from '../testing/virtual-time.ts';
import { FleetMember } from './fleet-member.ts';

const NODE = { name: 'outlast-7@host', pid: 7 };
type Fields = Readonly<Record<string, unknown>>;

/** A member on a broker that the test controls. */
function setup(
  options: {
    readonly events?: boolean;
    readonly control?: 'inspect' | 'on' | 'full';
  } = {},
) {
  const time = new VirtualTime();
  const { clock } = time;
  const runtime = {
    clock,
    random: { next: () => 0.5, token: () => 't' },
    faultPoint: noFaults,
    log: silentLogger,
    emit: noEvents,
  };
  const sent: EventMessage[] = [];
  const answers: AnswerMessage[] = [];
  let isAway = false;
  let deliver: (message: RequestMessage) => void = () => undefined;
  const fleet: Fleet = {
    place: {
      transport: 'amqp',
      hostname: 'broker',
      port: 5_672,
      userid: 'guest',
      virtualHost: '/',
      isTls: false,
    },
    tell: message => {
      if (!isAway) sent.push(message);
      return Promise.resolve(!isAway);
    },
    listen: given => void (deliver = given),
    answer: message => Promise.resolve(void answers.push(message)),
    close: () => Promise.resolve(),
  };
  const states = new Map<string, LifeState>();
  const cancelled: string[] = [];
  let failures = 0;
  const cancel = (id: string): Promise<CancelStatus> => {
    if (failures > 0) {
      failures -= 1;
      return Promise.reject(
        outlastError('ERR_STORE_UNAVAILABLE', { message: 'away', hint: '', fields: {} }),
      );
    }
    cancelled.push(id);
    return Promise.resolve('ok');
  };
  const read = (id: string) =>
    Promise.resolve({
      state: states.get(id) ?? ('unknown' as const),
      ending: null,
      result: null,
      error: null,
      why: null,
    });
  const member = new FleetMember({
    fleet,
    node: NODE,
    ledger: { cancel },
    results: { read },
    runtime,
    redact: null,
    settings: {
      sendsEvents: options.events ?? true,
      control: options.control ?? 'on',
      knownQueues: ['a', 'b'],
      concurrency: 4,
      version: '1.2.3',
      registered: ['shop.order'],
    },
    onShutdown: () => undefined,
  });
  const runs: {
    task: BegunTask;
    startedAt: number;
    isWaiting?: boolean;
    stop: (why: string) => void;
  }[] = [];
  const prefetched: Envelope[] = [];
  const worker = {
    runs,
    prefetch: { envelopes: prefetched },
    queues: { default: 1 },
    takeFrom: () => undefined,
    run: (signal: AbortSignal) =>
      new Promise<void>(resolve => signal.addEventListener('abort', () => resolve())),
  };
  const stop = new AbortController();
  const running = member.run(worker as unknown as Worker, stop.signal);
  let reads = 0;
  const ask = (
    method: string,
    given: object = {},
    more: object = {},
    headers: object = {},
  ): void => {
    const body = toBytes(
      JSON.stringify({
        method,
        arguments: given,
        ticket: 'ticket',
        reply_to: { exchange: 'reply.celery.pidbox', routing_key: 'caller' },
        ...more,
      }),
    );
    const parts = (): { headers: object; body: Uint8Array } => {
      reads += 1;
      return { headers, body };
    };
    deliver({ bytes: body.length, read: parts });
  };
  const events = (): readonly Fields[] =>
    sent.flatMap(({ body }) => JSON.parse(Buffer.from(body).toString()) as Fields[]);
  const answered = (): readonly unknown[] =>
    answers.map(({ body }) => (JSON.parse(Buffer.from(body).toString()) as Fields)[NODE.name]);
  return {
    time,
    member,
    sent,
    runs,
    prefetched,
    states,
    cancelled,
    ask,
    reads: () => reads,
    events,
    answered,
    end: async () => {
      stop.abort();
      await time.runUntil(time.nowMs + 5_000);
      await running;
    },
    setAway: (value: boolean) => void (isAway = value),
    failStore: (times: number) => void (failures = times),
  };
}

function begun(id: string, options: object = {}): BegunTask {
  const body = toBytes('[[2,3],{},{"callbacks":null,"errbacks":null,"chain":null,"chord":null}]');
  const named = { id, name: 'shop.order', version: 1, body };
  return {
    id,
    epoch: 1,
    run: 'r',
    failures: 0,
    crashes: 0,
    isSuspect: false,
    checkpoint: null,
    checkpointSeq: 0,
    envelope: {
      ...named,
      queue: 'default',
      priority: 0,
      options: toBytes(JSON.stringify(options)),
      digest: digestOf(named),
      etaMs: null,
      expiresMs: null,
    },
  };
}

const DONE: Settlement = { kind: 'commit', outcome: { kind: 'done', result: null }, value: '5' };
const ERROR = { type: 'RangeError', message: "it's\nout", traceback: 'RangeError: out' };
const failing = (delayMs: number | null): Settlement => ({
  kind: 'fail',
  error: ERROR,
  delayMs,
  reason: '',
  cause: null,
  isCrash: false,
});

describe('the events of a worker', () => {
  it('have the same fields as the events of Celery, for each type', async () => {
    const { member, time, events, end } = setup();
    const { observer } = member;
    await time.runUntil(2_500);
    observer.started(begun('a'));
    observer.settled(begun('a'), DONE, 8);
    observer.settled(begun('a'), failing(null), 8);
    observer.settled(begun('a'), failing(10), 8);
    observer.settled(begun('a'), { kind: 'release' }, 8);
    observer.expired({ id: 'a', name: 'shop.order', queue: 'default' });
    await end();
    const ours = new Map(events().map(event => [event['type'], event]));
    for (const [type, theirs] of celeryEvents()) {
      // This event is emitted by the sender.
      if (type === 'task-sent') continue;
      expect(Object.keys(ours.get(type) ?? {}).sort(), type).toEqual(Object.keys(theirs).sort());
    }
    expect(ours.get('task-received')).toMatchObject({ args: '[2,3]', kwargs: '{}', retries: 0 });
    expect(ours.get('task-succeeded')).toMatchObject({ result: '5', runtime: 0.008 });
    expect(ours.get('task-failed')).toMatchObject({
      exception: String.raw`RangeError('it\'s\nout')`,
    });
  });

  it('of tasks are sent together, in order, with a rising clock', async () => {
    const { member, time, sent, events, end } = setup();
    for (const id of ['a', 'b']) member.observer.started(begun(id));
    await time.runUntil(1_000);
    const batches = sent.filter(({ routingKey }) => routingKey === 'task.multi');
    expect(batches).toHaveLength(1);
    const tasks = events().filter(event => String(event['type']).startsWith('task-'));
    expect(tasks.map(event => [event['uuid'], event['type']])).toEqual([
      ['a', 'task-received'],
      ['a', 'task-started'],
      ['b', 'task-received'],
      ['b', 'task-started'],
    ]);
    const counts = tasks.map(event => Number(event['clock']));
    expect(counts).toEqual(counts.toSorted((a, b) => a - b));
    await end();
  });

  it('are kept while the broker is away, up to a limit, and dropped ones are counted', async () => {
    const { member, time, events, ask, answered, setAway, end } = setup();
    await time.runUntil(100);
    setAway(true);
    for (let count = 0; count < 1_000; count++) member.observer.started(begun(`t${count}`));
    await time.runUntil(5_000);
    setAway(false);
    await time.runUntil(10_000);
    const kept = events().filter(event => event['type'] === 'task-started');
    expect(kept).toHaveLength(500);
    expect(kept.at(-1)).toMatchObject({ uuid: 't999' });
    ask('stats');
    await time.runUntil(10_100);
    // Half of the two thousand, and the heartbeats, which have no value later.
    const [{ events_dropped: dropped }] = answered() as [{ events_dropped: number }];
    expect(dropped).toBeGreaterThanOrEqual(1_000);
    expect(dropped).toBeLessThan(1_010);
    await end();
  });

  it('are not sent before a request enables them', async () => {
    const { member, time, events, ask, answered, end } = setup({ events: false });
    member.observer.started(begun('a'));
    await time.runUntil(5_000);
    expect(events()).toEqual([]);
    ask('enable_events');
    await time.runUntil(5_100);
    member.observer.started(begun('b'));
    await time.runUntil(5_900);
    expect(events().map(event => event['type'])).toEqual([
      'worker-online',
      'task-received',
      'task-started',
    ]);
    expect(answered()).toEqual([{ ok: 'task events enabled' }]);
    await end();
  });

  it('do not fail the task when they cannot be encoded', async () => {
    const { member, time, end } = setup();
    const task = begun('a');
    const broken = { ...task, envelope: { ...task.envelope, options: toBytes('{broken') } };
    expect(() => member.observer.started(broken)).not.toThrow();
    await time.runUntil(1_000);
    await end();
  });
});

describe('a request', () => {
  it('is ignored after it has expired, with tolerance for a small difference of the clocks', async () => {
    const { time, ask, answered, end } = setup();
    await time.runUntil(100_000);
    ask('ping', {}, {}, { expires: 80 });
    ask('ping', {}, {}, { expires: 99 });
    ask('ping', {}, {}, { expires: 0 });
    await time.runUntil(100_100);
    expect(answered()).toEqual([{ ok: 'pong' }, { ok: 'pong' }]);
    await end();
  });

  it('is not answered when it is for other nodes, or has no reply address', async () => {
    const { time, ask, answered, end } = setup();
    ask('ping', {}, { destination: ['celery@host'] });
    ask('ping', {}, { reply_to: null });
    await time.runUntil(100);
    expect(answered()).toEqual([]);
    await end();
  });

  it.each([
    ['revoke', {}],
    ['revoke', { task_id: [1] }],
    ['revoke', { task_id: 'no good\u0000' }],
    ['cancel_consumer', {}],
    ['add_consumer', { queue: 'no good' }],
  ])('to %s with %j is answered with an error', async (method, given) => {
    const { time, ask, answered, cancelled, end } = setup();
    ask(method, given);
    await time.runUntil(100);
    expect(answered()).toEqual([{ error: expect.any(String) as string }]);
    expect(cancelled).toEqual([]);
    await end();
  });
});

describe('remote control', () => {
  it('drops requests that come too fast or are too long without parsing them, and answers again later', async () => {
    const { time, ask, reads, answered, end } = setup();
    ask('ping', { pad: 'x'.repeat(2_000_000) });
    expect(reads()).toBe(0);
    for (let asked = 0; asked < 5_000; asked++)
      ask('ping', {}, { matcher: 'pcre', pattern: '(.*)*x$' });
    await time.runUntil(100);
    expect(reads()).toBeLessThan(250);
    await time.runUntil(60_000);
    ask('ping');
    await time.runUntil(60_100);
    expect(answered().at(-1)).toEqual({ ok: 'pong' });
    // Long requests count for more.
    const before = reads();
    for (let asked = 0; asked < 200; asked++) ask('ping', { pad: 'x'.repeat(100_000) });
    expect(reads() - before).toBeLessThan(50);
    await end();
  });

  it('answers with an error when it does not support a pattern', async () => {
    const { time, ask, answered, end } = setup();
    ask('ping', {}, { matcher: 'pcre', pattern: String.raw`(o)\1` });
    await time.runUntil(100);
    expect(answered()).toEqual([{ error: expect.stringContaining('use a glob') as string }]);
    await end();
  });
});

describe('tasks that have not started', () => {
  it('are scheduled until their time comes or they are revoked, after a retry too', async () => {
    const { time, member, ask, answered, end } = setup();
    const parked = (id: string, etaMs: number): void =>
      member.observer.parked({ ...begun(id).envelope, etaMs });
    for (const [id, etaMs] of [
      ['late', 90_000],
      ['soon', 30_000],
      ['gone', 60_000],
    ] as const)
      parked(id, etaMs);
    member.observer.settled(begun('again'), failing(45_000), 8);
    ask('revoke', { task_id: 'gone' });
    await time.runUntil(100);
    ask('scheduled');
    await time.runUntil(200);
    const shown = answered().at(-1) as { readonly request: Fields }[];
    expect(shown.map(({ request }) => request['id'])).toEqual(['soon', 'again', 'late']);
    expect(shown[0]).toMatchObject({
      eta: expect.stringContaining('+00:00') as string,
      priority: 6,
      request: { args: [2, 3], time_start: null, worker_pid: null, acknowledged: true },
    });
    await time.runUntil(50_000);
    ask('dump_schedule');
    await time.runUntil(50_100);
    expect((answered().at(-1) as unknown[]).length).toBe(1);
    await end();
  });

  it('are reserved while they have no slot or are prefetched, and active afterwards', async () => {
    const { time, runs, prefetched, ask, answered, end } = setup();
    const run = { startedAt: 0, stop: () => undefined };
    runs.push({ ...run, task: begun('runs') }, { ...run, task: begun('waits'), isWaiting: true });
    prefetched.push(begun('fetched').envelope);
    ask('reserved');
    ask('active');
    ask('query_task', { ids: ['waits', 'runs'] });
    await time.runUntil(100);
    const [reserved, active, query] = answered() as [Fields[], Fields[], Fields];
    expect(reserved.map(({ id }) => id)).toEqual(['waits', 'fetched']);
    expect(active.map(({ id }) => id)).toEqual(['runs']);
    expect(query).toMatchObject({ waits: ['reserved', {}], runs: ['active', {}] });
    await end();
  });

  it('are revoked when they start with a stamp that was revoked, and others are not', async () => {
    const { time, member, ask, answered, cancelled, events, end } = setup();
    const { observer } = member;
    const stamped = begun('a', { stamps: { tenant: ['x', 7], other: 'y' } });
    expect(observer.starting(stamped)).toBeNull();
    ask('revoke_by_stamped_headers', { headers: { tenant: [7], it: "isn't" } });
    ask('revoke_by_stamped_headers', { headers: ['batch=b1'], terminate: true });
    await time.runUntil(50);
    ask('revoke_by_stamped_headers', {});
    await time.runUntil(100);
    expect(answered()).toEqual([
      { ok: `headers {'tenant': [7], 'it': "isn't"} flagged as revoked, but not terminated` },
      { ok: "headers {'batch': 'b1'} were not terminated" },
      { error: expect.any(String) as string },
    ]);
    expect(await observer.starting(stamped)).toBe(true);
    expect(await observer.starting(begun('b', { stamps: { batch: 'b1' } }))).toBe(true);
    expect(observer.starting(begun('c', { stamps: { tenant: 'z' } }))).toBeNull();
    expect(observer.starting(begun('d'))).toBeNull();
    await time.runUntil(1_000);
    expect(cancelled).toEqual(['a', 'b']);
    expect(events().at(-1)).toMatchObject({ type: 'task-revoked', uuid: 'b' });
    await end();
  });

  it('do not have running ones with the same stamp stopped, unless they are to be terminated', async () => {
    const { time, runs, ask, answered, cancelled, end } = setup();
    const stopped: string[] = [];
    const stop = (why: string): void => void stopped.push(why);
    runs.push({ task: begun('a', { stamps: { tenant: 'x' } }), startedAt: 0, stop });
    ask('revoke_by_stamped_headers', { headers: { tenant: ['x'] } });
    await time.runUntil(100);
    expect(cancelled).toEqual([]);
    ask('revoke_by_stamped_headers', { headers: { tenant: 'x' }, terminate: 1 });
    await time.runUntil(200);
    expect(answered().at(-1)).toEqual({ ok: "headers {'tenant': 'x'} revoked" });
    expect([cancelled, stopped]).toEqual([['a'], ['lost']]);
    await end();
  });
});

describe('a task that is revoked', () => {
  it('while it runs is cancelled instead of retried, and reported', async () => {
    const { member, time, ask, states, runs, cancelled, events, end } = setup();
    states.set('a', 'running');
    runs.push({ task: begun('a'), startedAt: 0, stop: () => undefined });
    ask('revoke', { task_id: 'a' });
    await time.runUntil(100);
    expect(cancelled).toEqual([]);
    member.observer.settled(begun('a'), failing(10), 1);
    await time.runUntil(1_000);
    expect(cancelled).toEqual(['a']);
    expect(events().at(-1)).toMatchObject({ type: 'task-revoked', uuid: 'a', terminated: false });
    await end();
  });

  it('while it runs is done when its run succeeds', async () => {
    const { member, time, ask, states, runs, cancelled, end } = setup();
    states.set('a', 'running');
    runs.push({ task: begun('a'), startedAt: 0, stop: () => undefined });
    ask('revoke', { task_id: 'a' });
    await time.runUntil(100);
    member.observer.settled(begun('a'), DONE, 1);
    await time.runUntil(1_000);
    expect(cancelled).toEqual([]);
    await end();
  });

  it('with terminate is stopped after the ledger has cancelled it', async () => {
    const { member, time, ask, runs, cancelled, events, answered, end } = setup();
    const stops: string[] = [];
    const stop = (why: string): void => void stops.push(`${why} after ${cancelled.join()}`);
    runs.push({ task: begun('a'), startedAt: 0, stop });
    ask('revoke', { task_id: ['a', 'b'], terminate: true, signal: 'SIGKILL' });
    await time.runUntil(100);
    expect(stops).toEqual(['lost after a']);
    expect(answered()).toEqual([{ ok: 'terminate: a' }]);
    member.observer.lost(begun('a'));
    await time.runUntil(1_000);
    expect(events().at(-1)).toMatchObject({
      type: 'task-revoked',
      terminated: true,
      signum: 'SIGKILL',
    });
    await end();
  });

  it('while the store is away is cancelled when the store is back', async () => {
    const { time, ask, cancelled, answered, failStore, end } = setup();
    failStore(3);
    ask('revoke', { task_id: 'a' });
    await time.runUntil(100);
    expect(answered()).toEqual([{ error: expect.stringContaining('ERR_STORE') as string }]);
    await time.runUntil(10_000);
    expect(cancelled).toEqual(['a']);
    await end();
  });
});

describe('celeryControl', () => {
  const answerTo = async (
    control: 'inspect' | 'on' | 'full',
    method: string,
    given: object = {},
  ): Promise<unknown> => {
    const { time, ask, answered, end } = setup({ control });
    ask(method, given);
    await time.runUntil(100);
    await end();
    return answered()[0];
  };

  it.each(['revoke', 'terminate', 'add_consumer', 'cancel_consumer', 'shutdown'])(
    'inspect refuses %s with a reason',
    async method => {
      expect(await answerTo('inspect', method, { task_id: 'a', queue: 'a' })).toEqual({
        error: expect.stringMatching(`^${method} is refused: worker.celeryControl`) as string,
      });
    },
  );

  it('inspect answers questions', async () => {
    expect(await answerTo('inspect', 'ping')).toEqual({ ok: 'pong' });
    expect(await answerTo('inspect', 'active_queues')).toHaveLength(1);
    expect(await answerTo('inspect', 'enable_events')).toMatchObject({
      ok: expect.any(String) as string,
    });
  });

  it('on adds a queue that the worker knows; full adds any queue', async () => {
    expect(await answerTo('on', 'add_consumer', { queue: 'b' })).toEqual({ ok: 'add consumer b' });
    expect(await answerTo('on', 'add_consumer', { queue: 'foreign' })).toEqual({
      error: expect.stringMatching('names foreign') as string,
    });
    expect(await answerTo('full', 'add_consumer', { queue: 'foreign' })).toEqual({
      ok: 'add consumer foreign',
    });
  });
});
