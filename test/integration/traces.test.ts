import { execFile } from 'node:child_process';
import { promisify } from 'node:util';
import { createServer } from 'node:http';
import { once } from 'node:events';
import type { AddressInfo } from 'node:net';
import { context, SpanKind, SpanStatusCode, trace } from '@opentelemetry/api';
import { AsyncLocalStorageContextManager } from '@opentelemetry/context-async-hooks';
import { OTLPTraceExporter } from '@opentelemetry/exporter-trace-otlp-http';
import {
  BasicTracerProvider,
  InMemorySpanExporter,
  SimpleSpanProcessor,
  type ReadableSpan,
  type SpanProcessor,
} from '@opentelemetry/sdk-trace-base';
import { afterAll, beforeAll, beforeEach, expect, it } from 'vitest';
import type { PoolClient } from 'pg';
import { fromPg } from '../../dist/adapters/transactions/pg.js';
import { outlastContext } from '../../dist/frameworks/express.js';
import {
  chain,
  chord,
  createOutlast,
  startWorker,
  task,
  unchecked,
  type Outlast,
} from '../../dist/index.js';
import type { Logger } from '../../src/telemetry/logger.ts';
import { CliProject, json } from '../support/cli-project.ts';
import { migratedDatabase, until, type MigratedDatabase } from '../support/database.ts';

const exporter = new InMemorySpanExporter();
const collected: unknown[] = [];
const server = createServer((request, response) => {
  let body = '';
  request.on('data', (part: Buffer) => (body += part.toString()));
  request.on('end', () => {
    collected.push(JSON.parse(body));
    response.writeHead(200, { 'content-type': 'application/json' }).end('{}');
  });
});

let provider: BasicTracerProvider;
let database: MigratedDatabase;
let outlast: Outlast<PoolClient>;

/** A processor of the application that throws when spans start or end, if a test says so. */
let throwsAt: 'start' | 'end' | null = null;
const throwAt = (at: 'start' | 'end'): void => {
  if (throwsAt === at) throw new Error(`the processor throws at the ${at}`);
};
const throwing: SpanProcessor = {
  onStart: () => throwAt('start'),
  onEnd: () => throwAt('end'),
  forceFlush: async () => undefined,
  shutdown: async () => undefined,
};

const app = trace.getTracer('the application');
const SECRET = 'marker-5e7c1';

const text = unchecked<string>();
const first = task('traces.first', { input: text, result: text });
const second = task('traces.second', { input: text, result: text });
const part = task('traces.part', { input: text, result: text });
const sorry = task('traces.sorry', { input: text });
const broken = task('traces.broken', { input: text, result: text });
const body = task('traces.body', { input: unchecked<string[]>(), result: text });
const sent = task('traces.sent', { result: text });
const asked = task('traces.asked', { queue: 'requests' });

beforeAll(async () => {
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  const overHttp = new OTLPTraceExporter({ url: `http://127.0.0.1:${port}/v1/traces` });
  provider = new BasicTracerProvider({
    spanProcessors: [
      new SimpleSpanProcessor(exporter),
      new SimpleSpanProcessor(overHttp),
      throwing,
    ],
  });
  trace.setGlobalTracerProvider(provider);
  context.setGlobalContextManager(new AsyncLocalStorageContextManager().enable());
  database = await migratedDatabase('traces');
  outlast = createOutlast({
    database: database.url,
    adapter: fromPg(database.pool),
    traces: { opentelemetry: true },
  });
});

beforeEach(() => exporter.reset());

afterAll(async () => {
  await outlast.close();
  await database.dispose();
  await provider.shutdown();
  server.close();
});

const spanOf = (name: string, of?: string): ReadableSpan => {
  const found = exporter
    .getFinishedSpans()
    .find(
      span =>
        span.name === name && (of === undefined || span.attributes['outlast.task.name'] === of),
    );
  if (found === undefined)
    throw new Error(
      `no span ${name} of ${of} among ${exporter
        .getFinishedSpans()
        .map(s => s.name)
        .join(', ')}`,
    );
  return found;
};

const parentOf = (span: ReadableSpan): string | undefined => span.parentSpanContext?.spanId;
const idOf = (span: ReadableSpan): string => span.spanContext().spanId;

/** The spans between one and the root of its trace, nearest first. */
function pathOf(span: ReadableSpan): readonly string[] {
  const all = exporter.getFinishedSpans();
  const before = all.find(other => idOf(other) === parentOf(span));
  return before === undefined ? [span.name] : [span.name, ...pathOf(before)];
}

/** A request to the application, in which `fn` sends something. */
const inRequest = <T>(fn: () => Promise<T>): Promise<T> =>
  app.startActiveSpan('GET /orders', { kind: SpanKind.SERVER }, async span => {
    try {
      return await fn();
    } finally {
      span.end();
    }
  });

it('one trace from the request through chain, group, body and what handlers send', async () => {
  const inside = async (value: string): Promise<string> =>
    app.startActiveSpan(`of ${value}`, span => {
      span.end();
      return value;
    });
  const handlers = [
    outlast.handler(first, async (input, ctx) => {
      await ctx.send(sent);
      return await inside(`${input}-1`);
    }),
    outlast.handler(second, input => inside(`${input}-2`)),
    outlast.handler(part, input => inside(input)),
    outlast.handler(body, parts => inside(parts.join('+'))),
    outlast.handler(sent, () => inside('sent')),
  ];
  const worker = await startWorker(outlast, { tasks: handlers });
  const handles = await inRequest(() =>
    outlast.transaction(tx =>
      outlast.sendMany(tx, [
        chain(first.with('a'), second),
        chord([part.with('x'), part.with('y')], body),
      ]),
    ),
  );
  for (const handle of handles) await handle.result({ timeout: '60s' });
  await until(
    async () =>
      exporter.getFinishedSpans().filter(({ name }) => name === 'settle default').length === 6,
  );
  await worker.stop();

  const request = spanOf('GET /orders');
  const traces = new Set(exporter.getFinishedSpans().map(span => span.spanContext().traceId));
  expect([...traces]).toEqual([request.spanContext().traceId]);
  const created = spanOf('create default', 'traces.first');
  expect(created.kind).toBe(SpanKind.PRODUCER);
  expect(parentOf(created)).toBe(idOf(request));
  // Handlers are children of the message, what they send and what follows of the handler, and spans of the user too.
  const run = spanOf('process default', 'traces.first');
  expect(run.kind).toBe(SpanKind.CONSUMER);
  expect(parentOf(run)).toBe(idOf(created));
  expect(run.links[0]?.context.spanId).toBe(idOf(created));
  expect(parentOf(spanOf('receive default', 'traces.first'))).toBe(idOf(created));
  expect(parentOf(spanOf('settle default', 'traces.first'))).toBe(idOf(run));
  expect(parentOf(spanOf('of a-1'))).toBe(idOf(run));
  expect(parentOf(spanOf('process default', 'traces.second'))).toBe(idOf(run));
  expect(parentOf(spanOf('create default', 'traces.sent'))).toBe(idOf(run));
  expect(pathOf(spanOf('of sent')).slice(1, 4)).toEqual([
    'process default',
    'create default',
    'process default',
  ]);
  expect(pathOf(spanOf('process default', 'traces.body'))).toEqual([
    'process default',
    'process default',
    'create default',
    'GET /orders',
  ]);
  expect(run.attributes).toEqual({
    'messaging.system': 'postgresql',
    'messaging.operation.name': 'process',
    'messaging.operation.type': 'process',
    'messaging.destination.name': 'default',
    'messaging.message.id': expect.any(String) as string,
    'outlast.task.name': 'traces.first',
    'outlast.task.attempt': 1,
    'outlast.task.resurrections': 0,
    'outlast.task.epoch': expect.any(Number) as number,
    'outlast.task.outcome': 'done',
  });
});

it.each(['start', 'end'] as const)(
  'tasks are sent, run once and end also while a span processor throws at the %s of spans',
  async at => {
    const logged: string[] = [];
    const note = (_: object, message: string): void => void logged.push(message);
    const log: Logger = { debug: note, info: note, warn: note, error: note, child: () => log };
    await using traced = createOutlast({
      database: database.url,
      adapter: fromPg(database.pool),
      traces: { opentelemetry: true },
      log,
    });
    let runs = 0;
    let failures = 0;
    const handlers = [
      traced.handler(first, async (input, ctx) => {
        runs += 1;
        await ctx.send(sent);
        return input;
      }),
      traced.handler(sent, () => 'sent'),
      traced.handler(sorry, {
        retry: { maxAttempts: 1 },
        run: () => {
          failures += 1;
          throw new RangeError('its own');
        },
      }),
    ];
    throwsAt = at;
    const worker = await startWorker(traced, { tasks: handlers });
    try {
      const [good, bad] = await traced.transaction(tx =>
        traced.sendMany(tx, [first.with('a'), sorry.with('b')]),
      );
      expect(await good.result({ timeout: '60s' })).toBe('a');
      await expect(bad.result({ timeout: '60s' })).rejects.toThrow('its own');
    } finally {
      await worker.stop();
      throwsAt = null;
    }
    expect([runs, failures]).toEqual([1, 1]);
    expect(logged.filter(line => line.includes('what traces throws'))).toHaveLength(1);
  },
);

it('a retry names the attempt before it, and no span has a text of the user', async () => {
  let runs = 0;
  const handler = outlast.handler(sorry, {
    retry: { maxAttempts: 2, backoff: '1ms' },
    run: () => {
      runs += 1;
      if (runs === 1) throw new RangeError(SECRET);
    },
  });
  const worker = await startWorker(outlast, { tasks: [handler] });
  try {
    const headers = { region: SECRET, baggage: `user=${SECRET}` };
    const handle = await outlast.transaction(tx => outlast.send(tx, sorry, SECRET, { headers }));
    await handle.result({ timeout: '60s' });
  } finally {
    await worker.stop();
  }
  const [failed, done] = exporter
    .getFinishedSpans()
    .filter(({ name }) => name === 'process default');
  expect(failed?.status).toEqual({ code: SpanStatusCode.ERROR });
  expect(failed?.attributes).toMatchObject({
    'error.type': 'RangeError',
    'outlast.task.outcome': 'failed',
    'outlast.task.attempt': 1,
  });
  expect(done?.attributes).toMatchObject({
    'outlast.task.attempt': 2,
    'outlast.task.outcome': 'done',
  });
  expect(done?.links.map(({ context: { spanId }, attributes }) => [spanId, attributes])).toEqual([
    [idOf(spanOf('create default')), undefined],
    [failed?.spanContext().spanId, { 'outlast.link': 'retry' }],
  ]);
  await provider.forceFlush();
  const shown = exporter.getFinishedSpans().map(({ name, attributes, events, status, links }) => ({
    name,
    attributes,
    events,
    status,
    links,
  }));
  expect(JSON.stringify([shown, collected])).not.toContain(SECRET);
  const collectedIds = [...JSON.stringify(collected).matchAll(/"spanId":"(\w+)"/g)].map(
    ([, id]) => id,
  );
  expect(collectedIds).toEqual(
    expect.arrayContaining([failed?.spanContext().spanId, done?.spanContext().spanId]),
  );
});

const BROKEN = [
  {
    traceparent: 'FF-x',
    tracestate: 'x'.repeat(100_000),
    baggage: '\u0001',
    'sentry-trace': 'x'.repeat(9_999),
  },
  {
    traceparent: `00-${'A'.repeat(32)}-${'b'.repeat(16)}-01`,
    tracestate: '\u0000',
    baggage: ',=;'.repeat(99_999),
  },
];

it('broken trace headers hurt no task', async () => {
  const handler = outlast.handler(broken, (input, ctx) =>
    JSON.stringify([input, Object.keys(ctx.headers)]),
  );
  const worker = await startWorker(outlast, { tasks: [handler] });
  try {
    for (const headers of BROKEN) {
      const handle = await outlast.transaction(tx => outlast.send(tx, broken, 'a', { headers }));
      const [, names] = JSON.parse((await handle.result({ timeout: '60s' })) ?? '') as [
        string,
        string[],
      ];
      // A traceparent that means nothing goes on as it is: it is short. Ours does not replace what the caller has named.
      expect(names).toEqual(['traceparent']);
    }
  } finally {
    await worker.stop();
  }
});

const at = (name: string): string => JSON.stringify(import.meta.resolve(name));

const OTEL = `
  import { context, trace } from ${at('@opentelemetry/api')};
  import { AsyncLocalStorageContextManager } from ${at('@opentelemetry/context-async-hooks')};
  import { BasicTracerProvider, InMemorySpanExporter, SimpleSpanProcessor } from ${at('@opentelemetry/sdk-trace-base')};
  export const exporter = new InMemorySpanExporter();
  trace.setGlobalTracerProvider(new BasicTracerProvider({ spanProcessors: [new SimpleSpanProcessor(exporter)] }));
  context.setGlobalContextManager(new AsyncLocalStorageContextManager().enable());
  export const here = () => trace.getActiveSpan()?.spanContext() ?? null;`;

const HANDLERS = `
  import { createOutlast, task, unchecked } from 'outlast';
  import { here } from './otel.mjs';
  import config from './outlast.config.mjs';
  export const outlast = createOutlast(config);
  export const [inThread, inProcess] = ['thread', 'process'].map(mode =>
    outlast.handler(task('traces.' + mode, { result: unchecked() }), { mode, run: here }));`;

const MAIN = `
  import { startWorker } from 'outlast';
  import { exporter } from './otel.mjs';
  import { outlast, inThread, inProcess } from './handlers.mjs';
  const worker = await startWorker(outlast, { tasks: [inThread, inProcess] });
  const inside = [];
  for (const { task } of [inThread, inProcess])
    inside.push(await (await outlast.transaction(tx => outlast.send(tx, task))).result());
  await worker.stop();
  await outlast.close();
  const processes = exporter.getFinishedSpans().filter(({ name }) => name === 'process default');
  console.log(JSON.stringify({ inside, processes: processes.map(span => span.spanContext()) }));`;

it('handlers in threads and processes run inside of their span', async () => {
  const config = `export default { tasks: ['./handlers.mjs'], traces: { opentelemetry: true } };`;
  const files = {
    'outlast.config.mjs': config,
    'otel.mjs': OTEL,
    'handlers.mjs': HANDLERS,
    'main.mjs': MAIN,
  };
  const made = new CliProject(files);
  try {
    const env = { ...process.env, OUTLAST_DATABASE_URL: database.url };
    const { stdout } = await promisify(execFile)(process.execPath, ['main.mjs'], {
      cwd: made.folder,
      env,
    });
    const { inside, processes } =
      json<Record<'inside' | 'processes', readonly Record<string, unknown>[]>>(stdout);
    const ids = processes.map(({ traceId, spanId }) => ({ traceId, spanId }));
    expect(inside).toHaveLength(2);
    expect(inside.map(({ traceId, spanId }) => ({ traceId, spanId }))).toEqual(ids);
  } finally {
    await made.dispose();
  }
});

it.each([false, true])('loads OpenTelemetry only if it is asked for: %s', async opentelemetry => {
  const program = `
    import { createRequire } from 'node:module';
    import { createOutlast } from 'outlast';
    await createOutlast({ database: 'postgres://127.0.0.1:1/none', traces: { opentelemetry: ${opentelemetry} } }).close();
    const files = Object.keys(createRequire(import.meta.url).cache);
    console.log(files.some(file => file.includes('@opentelemetry')));`;
  const made = new CliProject({ 'main.mjs': program });
  try {
    const { stdout } = await promisify(execFile)(process.execPath, ['main.mjs'], {
      cwd: made.folder,
    });
    expect(json<boolean>(stdout)).toBe(opentelemetry);
  } finally {
    await made.dispose();
  }
});

it('goes on with the trace a request came with, where the application traces no requests', async () => {
  const headers = { traceparent: `00-${'a'.repeat(32)}-${'b'.repeat(16)}-01`, tracestate: 'v=1' };
  const send = (): Promise<{ id: string }> => outlast.transaction(tx => outlast.send(tx, asked));
  const bind = outlastContext(outlast);
  const inHttp = <T>(fn: () => Promise<T>): Promise<T> =>
    new Promise((resolve, reject) => {
      bind({ headers }, null, () => void fn().then(resolve, reject));
    });
  const { id } = await inHttp(send);
  const create = spanOf('create requests', asked.name);
  expect([create.spanContext().traceId, parentOf(create)]).toEqual([
    'a'.repeat(32),
    'b'.repeat(16),
  ]);
  const { rows } = await database.pool.query<{ options: string }>(
    "select convert_from(options, 'utf8') as options from outlast_task where id = $1",
    [id],
  );
  const carried = (JSON.parse(rows[0]?.options ?? '{}') as { headers: object }).headers;
  expect(carried).toEqual({
    traceparent: `00-${'a'.repeat(32)}-${idOf(create)}-01`,
    tracestate: 'v=1',
  });
  // A span of the application itself counts more.
  exporter.reset();
  await inHttp(() => inRequest(send));
  expect(spanOf('create requests', asked.name).spanContext().traceId).not.toBe('a'.repeat(32));
});
