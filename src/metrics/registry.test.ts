import { createSocket } from 'node:dgram';
import { once } from 'node:events';
import { metrics as api } from '@opentelemetry/api';
import {
  AggregationTemporality,
  InMemoryMetricExporter,
  MeterProvider,
  PeriodicExportingMetricReader,
} from '@opentelemetry/sdk-metrics';
import { describe, expect, it } from 'vitest';
import { readMetrics } from '../config/metrics.ts';
import { Events, type EventMap } from '../telemetry/events.ts';
import { ChildMetrics } from './children.ts';
import { DogStatsd } from './dogstatsd.ts';
import { openMetrics } from './open-metrics.ts';
import { prometheusText } from './prometheus.ts';
import { Registry, type Snapshot } from './registry.ts';

const newEvents = (): Events =>
  new Events(error => {
    throw error;
  });

const done = (name: string): EventMap['task:done'] => ({
  id: 'a',
  name,
  queue: 'q',
  epoch: 1,
  attempt: 1,
  waitedMs: 1,
  durationMs: 20,
  totalMs: 30,
});

const valueOf = (text: string, series: string): number =>
  Number(
    text
      .split('\n')
      .find(line => line.startsWith(`${series} `))
      ?.split(' ')
      .at(-1),
  );

describe('the registry of a process', () => {
  it('counts each event once, however many parts of the process have opened it', async () => {
    const events = newEvents();
    const source = { events, settings: readMetrics({}) };
    const [app, worker] = [
      await openMetrics({ ...source, process: 'application' }),
      await openMetrics({ ...source, process: 'worker' }),
    ];
    expect(app.registry).toBe(worker.registry);
    events.emit('task:done', done('shop.pay'));
    await app.close();
    events.emit('task:done', done('shop.pay'));
    const text = prometheusText(worker.registry.snapshot());
    const series = 'outlast_tasks_total{task="shop.pay",status="completed",reason=""}';
    expect(valueOf(text, series)).toBe(2);
    expect(valueOf(text, 'outlast_task_duration_seconds_bucket{task="shop.pay",le="0.025"}')).toBe(
      2,
    );
    await worker.close();
  });

  it('has no more series than it may, whatever names senders invent', () => {
    const registry = new Registry();
    for (let at = 0; at < 5_000; at++) registry.add('outlast_retries_total', [`t${at}`]);
    const series = registry.snapshot().outlast_retries_total ?? [];
    expect(series).toHaveLength(201);
    expect(series.at(-1)).toEqual([['other'], 4_800]);
    const named = new Registry({ tasks: ['a'] });
    for (const task of ['a', 'b', 'c']) named.add('outlast_retries_total', [task]);
    expect(named.snapshot().outlast_retries_total).toEqual([
      [['a'], 1],
      [['other'], 2],
    ]);
  });

  it('never lets a counter of a supervisor fall when a child ends, and forgets its gauges', () => {
    const children = new ChildMetrics();
    const child = (retries: number): Snapshot => {
      const registry = new Registry();
      registry.add('outlast_retries_total', ['a'], retries);
      registry.set('outlast_inflight_tasks', [], 3);
      registry.observe('outlast_lag_seconds', ['q'], 0.2);
      return registry.snapshot();
    };
    children.record('one', child(2));
    children.record('two', child(5));
    const before = prometheusText(children.with({}));
    expect(valueOf(before, 'outlast_retries_total{task="a"}')).toBe(7);
    expect(valueOf(before, 'outlast_inflight_tasks')).toBe(6);
    children.gone('one');
    const after = prometheusText(children.with({}));
    expect(valueOf(after, 'outlast_retries_total{task="a"}')).toBe(7);
    expect(valueOf(after, 'outlast_inflight_tasks')).toBe(3);
    expect(valueOf(after, 'outlast_lag_seconds_count{queue="q"}')).toBe(2);
  });

  it('puts no text of an error, and no argument of a limit, into a label', async () => {
    const events = newEvents();
    const open = await openMetrics({ events, settings: readMetrics({}), process: 'worker' });
    const secret = 'S3CR3T';
    const ref = { id: secret, name: 'shop.pay', queue: 'q' };
    const error = Object.assign(new Error(secret), {
      name: `Bad ${secret}`,
      code: `ERR ${secret}`,
    });
    events.emit('task:failed', { ...ref, where: 'worker', attempt: 1, durationMs: 1, error });
    events.emit('task:failed', {
      ...ref,
      where: 'relay',
      attempt: 1,
      durationMs: null,
      error: secret,
    });
    const where = 'relay';
    events.emit('task:dead-lettered', {
      ...ref,
      where,
      reason: 'ERR_ATTEMPTS_SPENT',
      error: { type: secret, message: `amqp://u:${secret}@h` },
    });
    events.emit('admission:rejected', { ...ref, where, key: `tenant:${secret}`, retryAfterMs: 1 });
    const keys = [`tenant:${secret}`, 'queue:q'];
    events.emit('admission:admitted', { ...ref, where: 'worker', keys });
    events.emit('task:deduplicated', { ...ref, key: secret, original: secret });
    events.emit('task:soft-timeout', { ...ref, attempt: 1, softTimeoutMs: 1 });
    const text = prometheusText(open.registry.snapshot());
    expect(text).toContain('outlast_admission_total{result="rejected",resource="tenant"');
    const admitted = 'outlast_admission_total{result="admitted",resource=';
    expect(text).toContain(`${admitted}"tenant",where="worker"} 1`);
    expect(text).toContain(`${admitted}"queue",where="worker"} 1`);
    expect(text).toContain('outlast_timeouts_total{type="soft"');
    expect(text).not.toContain(secret);
    await open.close();
  });
});

describe('exporters', () => {
  it('DogStatsD gets counters, samples and gauges over UDP', async () => {
    const agent = createSocket('udp4');
    agent.bind(0, '127.0.0.1');
    await once(agent, 'listening');
    const received: string[] = [];
    agent.on('message', packet => received.push(...packet.toString().split('\n')));
    const settings = readMetrics({ dogstatsd: `127.0.0.1:${agent.address().port}` });
    const events = newEvents();
    const gauges = (registry: Registry): void => registry.set('outlast_queue_depth', [], 7);
    const open = await openMetrics({ events, settings, process: 'relay', gauges });
    const ref = { id: 'a', name: 'shop.pay,x|y', queue: 'q' };
    events.emit('task:sent', { ...ref, latencyMs: 12.5 });
    events.emit('task:sent', { ...ref, latencyMs: 20 });
    const wanted = [
      'outlast.messages.published:2|c|#task_name:shop.pay_x_y',
      'outlast.send_latency_ms:12.5:20|d|#task_name:shop.pay_x_y',
      'outlast.queue.depth:7|g',
    ];
    while (!wanted.every(line => received.includes(line))) await once(agent, 'message');
    await open.close();
    agent.close();
    expect(received).toEqual(expect.arrayContaining(wanted));
  });

  it('DogStatsD looks up the name of its agent once at a time, and keeps figures until it is known', async () => {
    const agent = createSocket('udp4');
    agent.bind(0, '127.0.0.1');
    await once(agent, 'listening');
    const registry = new Registry({});
    const asked: ((address: string) => void)[] = [];
    const silent = (): Promise<string> => new Promise(resolve => void asked.push(resolve));
    const target = { host: 'agent.example', port: agent.address().port };
    const [statsd, unheard] = [1, 2].map(() => new DogStatsd(registry, target, silent));
    for (let flush = 0; flush < 100; flush += 1) {
      registry.add('outlast_messages_published_total', ['shop.pay']);
      statsd?.flush();
    }
    expect(asked).toHaveLength(2);
    await unheard?.close();
    asked[0]?.('127.0.0.1');
    await Promise.resolve();
    statsd?.flush();
    const [packet] = (await once(agent, 'message')) as [Buffer];
    expect(packet.toString()).toBe('outlast.messages.published:100|c|#task_name:shop.pay');
    await statsd?.close();
    agent.close();
  });

  it('OpenTelemetry collects the same in the SDK of the application', async () => {
    const exporter = new InMemoryMetricExporter(AggregationTemporality.CUMULATIVE);
    const reader = new PeriodicExportingMetricReader({ exporter, exportIntervalMillis: 3_600_000 });
    const provider = new MeterProvider({ readers: [reader] });
    api.setGlobalMeterProvider(provider);
    const events = newEvents();
    const settings = readMetrics({ opentelemetry: true });
    const gauges = (registry: Registry): void => registry.set('outlast_queue_depth', [], 7);
    const open = await openMetrics({ events, settings, process: 'relay', gauges });
    events.emit('task:done', done('shop.pay'));
    await provider.forceFlush();
    const found = exporter
      .getMetrics()
      .flatMap(({ scopeMetrics }) => scopeMetrics.flatMap(scope => scope.metrics));
    const point = (name: string) =>
      found.find(({ descriptor }) => descriptor.name === name)?.dataPoints[0];
    expect(point('outlast.tasks')).toMatchObject({
      value: 1,
      attributes: { 'outlast.task': 'shop.pay', 'outlast.status': 'completed' },
    });
    expect(point('outlast.task_duration')).toMatchObject({ value: { count: 1, sum: 0.02 } });
    expect(point('outlast.queue_depth')).toMatchObject({ value: 7 });
    await open.close();
    await provider.shutdown();
    api.disable();
  });
});
