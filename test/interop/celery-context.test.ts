import { context, trace } from '@opentelemetry/api';
import { AsyncLocalStorageContextManager } from '@opentelemetry/context-async-hooks';
import {
  BasicTracerProvider,
  InMemorySpanExporter,
  SimpleSpanProcessor,
} from '@opentelemetry/sdk-trace-base';
import { afterAll, beforeAll, expect, it } from 'vitest';
import type { PoolClient } from 'pg';
import { fromPg } from '../../dist/adapters/transactions/pg.js';
import {
  chain,
  createOutlast,
  startRelay,
  startWorker,
  task,
  unchecked,
  withContext,
  type Outlast,
} from '../../dist/index.js';
import { unique } from '../conformance/envelopes.ts';
import { migratedDatabase, type MigratedDatabase } from '../support/database.ts';
import { startRedis, type OwnRedis } from '../support/redis-server.ts';
import { rabbitmqUrl } from '../support/servers.ts';
import { endProcess, startCeleryWorker } from './celery-kit.ts';

const [PYTHON, OURS] = [unique('python'), unique('ours')];
const CONTEXT = { requestId: 'r-17', user: 'ann' };

const exporter = new InMemorySpanExporter();

let database: MigratedDatabase;
let server: OwnRedis;
let outlast: Outlast<PoolClient>;

beforeAll(async () => {
  const spanProcessors = [new SimpleSpanProcessor(exporter)];
  trace.setGlobalTracerProvider(new BasicTracerProvider({ spanProcessors }));
  context.setGlobalContextManager(new AsyncLocalStorageContextManager().enable());
  [database, server] = [await migratedDatabase('celery_context'), await startRedis()];
  outlast = createOutlast({
    database: database.url,
    broker: rabbitmqUrl(),
    ledger: server.url,
    context: ['requestId', 'user'],
    traces: { opentelemetry: true },
    adapter: fromPg(database.pool),
  });
});

afterAll(async () => {
  await outlast.close();
  await server.dispose();
  await database.dispose();
});

it('context and trace go through outbox, RabbitMQ and a Python worker to the next step', async () => {
  const carried = task('interop.carried', {
    queue: PYTHON,
    args: unchecked<unknown[]>(),
    result: unchecked<Record<string, string>>(),
  });
  const last = task(unique('ts.last'), {
    queue: OURS,
    input: unchecked<Record<string, string>>(),
    result: unchecked<readonly unknown[]>(),
  });
  const here = (): string | undefined => trace.getActiveSpan()?.spanContext().traceId;
  const handler = outlast.handler(last, (input, ctx) => [input, ctx.context, here()]);
  const target = { broker: rabbitmqUrl().replace(/\/$/, '//'), backend: server.url };
  const python = await startCeleryWorker(target, [PYTHON]);
  const relay = await startRelay(outlast);
  const worker = await startWorker(outlast, { tasks: [handler], queues: [OURS] });
  try {
    const request = trace.getTracer('shop').startSpan('GET /orders');
    const { traceId } = request.spanContext();
    const [sent] = await withContext(CONTEXT, () =>
      context.with(trace.setSpan(context.active(), request), () =>
        outlast.transaction(tx => outlast.sendMany(tx, [chain(carried.with({ args: [] }), last)])),
      ),
    );
    const [inPython, inOurs, traceHere] = await sent.result({ timeout: '120s' });
    expect(inPython).toMatchObject(CONTEXT);
    expect((inPython as Record<string, string>)['traceparent']).toContain(traceId);
    expect([inOurs, traceHere]).toEqual([CONTEXT, traceId]);
    const hops = ['create', `send ${PYTHON}`, `process ${OURS}`];
    const spans = exporter
      .getFinishedSpans()
      .filter(({ name }) => hops.some(hop => name.startsWith(hop)));
    expect(new Set(spans.map(span => span.spanContext().traceId))).toEqual(new Set([traceId]));
    expect(spans.length).toBeGreaterThanOrEqual(hops.length);
  } finally {
    await worker.stop();
    await relay.stop();
    await endProcess(python);
  }
});
