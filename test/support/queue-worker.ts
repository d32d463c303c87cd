import { MemoryBroker } from '../../src/testing/memory/memory-broker.ts';
import { MemoryIdempotencyStore } from '../../src/testing/memory/memory-idempotency-store.ts';
import { MemoryLedger } from '../../src/testing/memory/memory-ledger.ts';
import { MemoryLedgerReads } from '../../src/testing/memory/memory-ledger-reads.ts';
import type { Broker } from '../../src/broker/broker.ts';
import type { Destinations } from '../../src/ledger/destinations.ts';
import { noFaults } from '../../src/runtime/runtime.ts';
import { task } from '../../src/task/define-task.ts';
import type { Envelope } from '../../src/task/envelope.ts';
import { unchecked } from '../../src/task/standard-schema.ts';
import { noEvents } from '../../src/telemetry/events.ts';
import { silentLogger } from '../../src/telemetry/logger.ts';
import { defineHandler } from '../../src/worker/handler.ts';
import { LoopHeartbeat } from '../../src/worker/lease/heartbeat.ts';
import { Worker } from '../../src/worker/worker.ts';
import { VirtualTime } from '../../src/testing/virtual-time.ts';

const never = (): Promise<never> => new Promise(() => undefined);

type Taking = Broker['take'];

export interface QueueWorkerOptions {
  /** What the handler returns. */
  readonly result?: unknown;
  readonly destinations?: Destinations;
}

/**
 * A worker of five slots that takes `conformance.task` from the queue `q` of a broker in memory, under a clock that the test
 * moves. While the broker is silent it delivers, and confirms nothing.
 */
export function queueWorker({ result = null, destinations }: QueueWorkerOptions = {}) {
  const time = new VirtualTime();
  const { clock } = time;
  const ledger = new MemoryLedger({ clock });
  const connection = new MemoryBroker().connect();
  const published: Envelope[] = [];
  const replied: string[] = [];
  let isSilent = false;
  let deaf: Taking | null = null;
  const broker: Broker = {
    hasQueues: true,
    publish: messages => {
      published.push(...messages);
      return isSilent ? never() : connection.publish(messages);
    },
    reply: replies => {
      replied.push(...replies.map(({ replyTo }) => replyTo));
      return isSilent ? never() : Promise.resolve(replies.map(() => ({ status: 'confirmed' })));
    },
    take: (queues, limit) => deaf?.(queues, limit) ?? connection.take(queues, limit),
    silentMs: () => 0,
    ack: deliveries => connection.ack(deliveries),
    giveBack: deliveries => connection.giveBack(deliveries),
    onReady: (queues, hint) => connection.onReady(queues, hint),
    close: () => connection.close(),
  };
  let token = 0;
  const random = { next: () => 0.5, token: () => `t${++token}` };
  const runtime = { clock, random, faultPoint: noFaults, log: silentLogger, emit: noEvents };
  let handled = 0;
  const handler = defineHandler(
    task('conformance.task', {
      args: unchecked<unknown[]>(),
      kwargs: unchecked<object>(),
      result: unchecked<unknown>(),
    }),
    () => {
      handled += 1;
      return new Promise<unknown>(resolve => void clock.timer(5, () => resolve(result)));
    },
    { door: () => ({ locksTask: false, pass: never, fence: never }), sendInside: never },
  );
  const worker = new Worker({
    ledger,
    broker,
    keys: { store: new MemoryIdempotencyStore(clock), reads: new MemoryLedgerReads(ledger) },
    handlers: new Map([['conformance.task', handler]]),
    runtime,
    heartbeat: new LoopHeartbeat(ledger, runtime, 1_000),
    ...(destinations ? { destinations } : {}),
    settings: {
      queues: { q: 1 },
      concurrency: 5,
      leaseMs: 5_000,
      idleTimeMs: 1_000,
      shutdownTimeoutMs: 1_000,
      dedupWindowMs: 60_000,
      resultTtlMs: 60_000,
      ackOn: 'commit',
      runsAt: { pid: 1, hostname: 'h' },
      process: 'p',
      host: 'h',
      pid: 1,
    },
  });
  const stop = new AbortController();
  const running = worker.run(stop.signal);
  return {
    time,
    ledger,
    published,
    replied,
    running,
    stop,
    handled: () => handled,
    runs: () => worker.runs.length,
    status: () => worker.status,
    /** As a producer that writes to the queue itself. */
    arrive: (messages: readonly Envelope[]) => connection.publish(messages),
    beSilent: (value: boolean) => void (isSilent = value),
    /** What a worker meets that asks for messages; null: the queue itself. */
    takeBy: (taking: Taking | null) => void (deaf = taking),
    /** What it would be given. */
    takeNow: (limit: number) => connection.take(['q'], limit),
    inState: (state: string) =>
      [...ledger.state.records.values()].filter(record => record.state === state),
  };
}
