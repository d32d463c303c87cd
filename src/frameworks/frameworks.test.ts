import { serve } from '@hono/node-server';
import express5 from 'express';
import fastify from 'fastify';
import { Hono, type Context } from 'hono';
import { HTTPException } from 'hono/http-exception';
import { createRequire } from 'node:module';
import type { Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { afterEach, describe, expect, it, onTestFinished, vi } from 'vitest';
import { z } from 'zod';
import { createOutlast } from '../app/create-outlast.ts';
import type { Outlast } from '../app/outlast.ts';
import { outlastError } from '../errors/error.ts';
import { task } from '../task/index.ts';
import { createTestKit, type TestKit } from '../testing/index.ts';
import * as express from './express.ts';
import { outlastPlugin, type ReplyLike } from './fastify.ts';
import * as hono from './hono.ts';
import { problemOf, retryAfterSeconds } from './problem-of.ts';

const require = createRequire(import.meta.url);
// It brings no types of its own.
const express4 = require('express4') as typeof express5;

const receipt = task('shop.receipt', { input: z.object({ order: z.string() }) });

const rejected = outlastError('ERR_ADMISSION_REJECTED', {
  message: 'shop.charge is not admitted now: queue:secret is at its rate',
  hint: '',
  fields: { key: 'queue:secret', retryAfterMs: 4_200 },
});
const away = outlastError('ERR_STORE_UNAVAILABLE', {
  message: 'postgres://secret cannot be reached',
  hint: '',
  fields: {},
});
const bug = new Error('a bug');
const thrown: Readonly<Record<string, Error>> = { rejected, away, bug };

/** What the shop does, whatever framework it is behind. */
interface Shop {
  order(body: unknown): Promise<unknown>;
  fail(name: string): Promise<never>;
  /** What the application does with errors that are not Outlast's. */
  readonly seen: unknown[];
  readonly context: (request: { readonly headers: object } | hono.ContextLike) => { user: string };
}

type Framework = (shop: Shop, outlast: Outlast) => Promise<{ url: string; close(): unknown }>;

const FRAMEWORKS: Readonly<Record<string, Framework>> = {
  'Express 5': async (shop, outlast) => await onExpress(express5, shop, outlast),
  'Express 4': async (shop, outlast) => await onExpress(express4, shop, outlast),
  Fastify: async (shop, outlast) => {
    const app = fastify();
    void app.register(outlastPlugin, {
      outlast,
      context: shop.context,
      errorHandler: (error: Error, _request: unknown, reply: ReplyLike) => {
        shop.seen.push(error);
        return reply.code((error as { statusCode?: number }).statusCode ?? 500).send('ours');
      },
    });
    app.post('/orders', async request => await shop.order(request.body));
    app.get<{ Params: { name: string } }>('/fail/:name', ({ params }) => shop.fail(params.name));
    return { url: await app.listen({ port: 0, host: '127.0.0.1' }), close: () => app.close() };
  },
  Hono: async (shop, outlast) => {
    const app = new Hono();
    app.use(hono.outlastContext(outlast, { context: shop.context }));
    app.onError(
      hono.outlastErrors((error, c: Context) => {
        shop.seen.push(error);
        return c.text('ours', error instanceof HTTPException ? error.status : 500);
      }),
    );
    app.post('/orders', async c => c.json((await shop.order(await c.req.json())) as object));
    app.get('/fail/:name', c => shop.fail(c.req.param('name')));
    const server = serve({ fetch: app.fetch, port: 0, hostname: '127.0.0.1' }) as Server;
    return await listening(server);
  },
};

async function onExpress(framework: typeof express5, shop: Shop, outlast: Outlast) {
  const app = framework();
  app.use(express.outlastContext(outlast, { context: shop.context }));
  app.use(framework.json());
  // Express 4 does not look at what a route returns.
  app.post('/orders', (request, response, next) => {
    shop.order(request.body).then(sent => response.json(sent), next);
  });
  app.get('/fail/:name', (request, _response, next) => {
    shop.fail(request.params.name).catch(next);
  });
  app.use(express.outlastErrors());
  const ours: express5.ErrorRequestHandler = (error, _request, response, _next) => {
    shop.seen.push(error);
    response.status((error as { status?: number }).status ?? 500).send('ours');
  };
  app.use(ours);
  return await listening(app.listen(0, '127.0.0.1'));
}

async function listening(server: Server) {
  if (!server.listening) await new Promise(resolve => server.once('listening', resolve));
  const { port } = server.address() as AddressInfo;
  return { url: `http://127.0.0.1:${port}`, close: () => server.close() };
}

afterEach(() => {
  vi.restoreAllMocks();
});

/** A shop behind a framework, on stores in memory; what it prints is collected. */
async function setup(framework: Framework) {
  const printed: string[] = [];
  const note = (...parts: unknown[]): true => (printed.push(parts.map(String).join(' ')), true);
  const warnings: string[] = [];
  const log = { warn: (_: object, text: string) => void warnings.push(text) };
  const silent = { debug: () => {}, info: () => {}, error: () => {}, child: () => silent, ...log };
  const outlast = createOutlast({ context: ['requestId', 'user'], log: silent });
  const kit: TestKit = await createTestKit(outlast);
  const shop = {
    seen: [],
    order: async (body: unknown) => {
      await new Promise(resolve => setImmediate(resolve));
      const input = body as { order: string };
      const { id } = await outlast.transaction(tx => outlast.send(tx, receipt, input));
      return { id };
    },
    fail: async (name: string): Promise<never> => {
      await Promise.resolve();
      throw thrown[name] ?? bug;
    },
    context: () => ({ user: 'ann' }),
  } satisfies Shop;
  vi.spyOn(process.stderr, 'write').mockImplementation(note);
  vi.spyOn(console, 'error').mockImplementation(note);
  const app = await framework(shop, outlast);
  onTestFinished(async () => {
    await app.close();
    await kit[Symbol.asyncDispose]();
  });
  const post = (body: string, headers: Record<string, string> = {}): Promise<Response> =>
    fetch(`${app.url}/orders`, {
      method: 'POST',
      body,
      headers: { 'content-type': 'application/json', connection: 'close', ...headers },
    });
  const get = (path: string): Promise<Response> =>
    fetch(app.url + path, { headers: { connection: 'close' } });
  return { kit, shop, post, get, printed, warnings };
}

const ORDER = JSON.stringify({ order: '17' });
const PARENT = `00-${'a'.repeat(32)}-${'b'.repeat(16)}-01`;

describe.each(Object.entries(FRAMEWORKS))('%s', (name, framework) => {
  it('answers errors about load with problem+json and Retry-After, and prints and reveals nothing', async () => {
    const { get, shop, printed } = await setup(framework);
    for (const [error, status, atLeast] of [
      ['rejected', 429, 5],
      ['away', 503, 2],
    ] as const) {
      const response = await get(`/fail/${error}`);
      expect(response.status).toBe(status);
      expect(response.headers.get('content-type')).toMatch(/^application\/problem\+json\b/);
      expect(Number(response.headers.get('retry-after'))).toBeGreaterThanOrEqual(atLeast);
      const text = await response.text();
      expect(text).not.toContain('secret');
      expect(JSON.parse(text)).toMatchObject({ status });
    }
    expect([shop.seen, printed]).toEqual([[], []]);
  });

  it('answers an invalid input with 400 and its issues', async () => {
    const { post, kit, shop } = await setup(framework);
    const response = await post('{"order":17}');
    expect(response.status).toBe(400);
    expect(await response.json()).toMatchObject({
      code: 'ERR_INPUT_INVALID',
      issues: [{ path: 'order', message: expect.stringContaining('expected string') as string }],
    });
    expect(kit.sent(receipt)).toEqual([]);
    expect(shop.seen).toEqual([]);
  });

  it('leaves other errors to the application as they are: its bugs, and bodies that cannot be parsed', async () => {
    const { get, post, shop } = await setup(framework);
    expect(await (await get('/fail/bug')).text()).toBe('ours');
    expect(shop.seen).toEqual([bug]);
    const response = await post('{"order":');
    // Hono throws what JSON.parse throws, which is no HTTP error of its own.
    expect([400, 500]).toContain(response.status);
    expect(await response.text()).toBe('ours');
    expect(shop.seen).toHaveLength(2);
  });

  it('binds trace and context of each request to what is sent in it, behind the parsing of the body', async () => {
    const { post, kit } = await setup(framework);
    const headers = { traceparent: PARENT, tracestate: 'v=1', 'x-request-id': 'r-17' };
    const both = [post(ORDER, { ...headers, baggage: 'user=root' }), post(ORDER)];
    for (const response of await Promise.all(both)) expect(response.status).toBeLessThan(300);
    const sent = kit.sent(receipt).map(one => one.headers);
    const traced = sent.find(one => 'traceparent' in one);
    expect(traced).toMatchObject({ traceparent: PARENT, tracestate: 'v=1', user: 'ann' });
    expect(traced).not.toHaveProperty('baggage');
    const other = sent.find(one => one !== traced);
    expect(other).toMatchObject({ user: 'ann' });
    expect(other).not.toHaveProperty('tracestate');
    // Fastify numbers its requests, and believes no header unless it is told to.
    if (name !== 'Fastify') expect(traced).toMatchObject({ requestId: 'r-17' });
    else expect(traced?.['requestId']).toMatch(/^req-/);
  });

  it('takes nothing from headers that are not well-formed', async () => {
    const { post, kit } = await setup(framework);
    const hostile = [
      { traceparent: `${PARENT}, ${PARENT}`, tracestate: 'v=1' },
      { traceparent: `00-${'0'.repeat(32)}-${'b'.repeat(16)}-01` },
      { traceparent: 'x'.repeat(4_000), 'x-request-id': 'y'.repeat(4_000) },
      { traceparent: PARENT, tracestate: 'z'.repeat(4_000), 'x-request-id': 'not one word' },
    ];
    for (const headers of hostile) expect((await post(ORDER, headers)).status).toBe(200);
    const sent = kit.sent(receipt).map(one => one.headers);
    expect(sent.map(one => one['traceparent'])).toEqual([undefined, undefined, undefined, PARENT]);
    expect(sent.filter(one => 'tracestate' in one)).toEqual([]);
    if (name !== 'Fastify') expect(sent.filter(one => 'requestId' in one)).toEqual([]);
  });

  it('goes on without a context that cannot be found out', async () => {
    const broken: Framework = (shop, outlast) =>
      framework({ ...shop, context: () => thrown['nothing']?.message as never }, outlast);
    const { post, kit } = await setup(broken);
    expect((await post(ORDER)).status).toBe(200);
    const failing: Framework = (shop, outlast) =>
      framework(
        {
          ...shop,
          context: () => {
            throw bug;
          },
        },
        outlast,
      );
    const second = await setup(failing);
    expect((await second.post(ORDER, { traceparent: PARENT })).status).toBe(200);
    expect(second.kit.sent(receipt)).toMatchObject([{ headers: { traceparent: PARENT } }]);
    expect(second.warnings.join()).toContain('`context`');
    expect(kit.sent(receipt)).toHaveLength(1);
  });
});

describe('Fastify without a handler of the application', () => {
  it('answers as a Fastify that knows nothing of Outlast', async () => {
    const [plain, ours] = [fastify(), fastify()];
    const outlast = createOutlast();
    void ours.register(outlastPlugin, { outlast });
    const answers = [plain, ours].map(async app => {
      app.get('/bug', () => Promise.reject(bug));
      const { statusCode, headers, body } = await app.inject('/bug');
      await app.close();
      return [statusCode, headers['content-type'], body];
    });
    expect(await answers[1]).toEqual(await answers[0]);
    expect(ours).toMatchObject({ outlast });
  });
});

describe('Hono without a handler of the application', () => {
  it('answers as a Hono that knows nothing of Outlast', async () => {
    const printed: unknown[] = [];
    vi.spyOn(console, 'error').mockImplementation(error => void printed.push(error));
    const [plain, ours] = [new Hono(), new Hono()];
    ours.onError(hono.outlastErrors());
    const answers = [plain, ours].map(async app => {
      app.get('/bug', c => {
        c.header('x-before', '1');
        throw bug;
      });
      app.get('/http', () => {
        throw new HTTPException(418, { message: 'a teapot' });
      });
      const responses = await Promise.all(
        ['/bug', '/http'].map(async path => await app.request(path)),
      );
      return await Promise.all(
        responses.map(async one => [one.status, Object.fromEntries(one.headers), await one.text()]),
      );
    });
    expect(await answers[1]).toEqual(await answers[0]);
    expect(printed).toEqual([bug, bug]);
  });
});

describe('problemOf', () => {
  const texts = (error: Error): { status: number; issues?: readonly object[] } | null => {
    const problem = problemOf(error, () => 0);
    return problem === null ? null : (JSON.parse(problem.body) as { status: number });
  };

  it('bounds the issues, and shows no secrets and no names', () => {
    const issue = { path: 'p'.repeat(999), message: `postgres://me:hunter2@db ${'m'.repeat(999)}` };
    const error = outlastError('ERR_INPUT_INVALID', {
      message: 'the input of shop.secret is not valid',
      hint: '',
      fields: { task: 'shop.secret', issues: Array.from({ length: 999 }, () => issue) },
    });
    const shown = texts(error);
    expect(shown?.issues).toHaveLength(20);
    const text = JSON.stringify(shown);
    expect(text.length).toBeLessThan(10_000);
    expect(text).not.toMatch(/hunter2|secret/);
  });

  it.each([
    ['ERR_INPUT_NOT_JSON', { path: 'a.b' }, 400],
    ['ERR_NAME_UNSAFE', { what: 'secret' }, 400],
    ['ERR_PAYLOAD_TOO_LARGE', { bytes: 9, maxBytes: 8 }, 413],
    ['ERR_IDEMPOTENCY_MISMATCH', { key: 'secret' }, 422],
    ['ERR_NOT_IN_TRANSACTION', {}, null],
    ['ERR_CLOSED', {}, null],
    ['ERR_TASK_FAILED', { id: '', type: '', traceback: '' }, null],
    ['ERR_INVARIANT', {}, null],
  ] as const)('answers %s', (code, fields, status) => {
    const error = outlastError(code, {
      message: 'secret',
      hint: 'secret',
      fields,
    });
    const shown = texts(error);
    expect(shown?.status ?? null).toBe(status);
    expect(JSON.stringify(shown)).not.toContain('secret');
  });

  it('never answers sooner than the limit asks for, and varies between callers', () => {
    for (const ms of [0, 1, 999, 1_000, 1_001, 60_000]) {
      const seconds = [0, 0.3, 0.6, 0.99].map(random => retryAfterSeconds(ms, random));
      expect(Math.min(...seconds) * 1_000).toBeGreaterThanOrEqual(ms);
      expect(new Set(seconds).size).toBeGreaterThan(1);
    }
  });
});
