import { Hono } from 'hono';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { describe, expect, it } from 'vitest';
import { outlastError } from '../errors/error.ts';
import * as express from './express.ts';
import * as hono from './hono.ts';
import { retryAfterSeconds } from './problem-of.ts';

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
const thrown: Readonly<Record<string, Error>> = { rejected, away, other: new Error('a bug') };

/** The same routes behind each framework. */
const ANSWERS: readonly (readonly [string, (path: string) => Promise<Response>])[] = [
  ['hono', askHono],
  ['express', askExpress],
];

async function askHono(path: string): Promise<Response> {
  const app = new Hono();
  app.use(hono.outlastErrors());
  app.onError((_, c) => c.text('ours', 500, { 'x-trace': '1' }));
  app.get('/fine', c => c.text('fine'));
  app.get('/:name', c => {
    throw thrown[c.req.param('name')] as Error;
  });
  return await app.request(path);
}

/** Express calls error middleware with what a route threw; its request and response are Node's. */
async function askExpress(path: string): Promise<Response> {
  const middleware = express.outlastErrors();
  const server = createServer((request: IncomingMessage, response: ServerResponse) => {
    const next = (): void => void response.writeHead(500).end('ours');
    if (request.url === '/fine') response.end('fine');
    else middleware(thrown[request.url?.slice(1) ?? ''], request, response, next);
  }).listen(0);
  try {
    return await fetch(`http://127.0.0.1:${(server.address() as AddressInfo).port}${path}`);
  } finally {
    server.close();
  }
}

describe.each(ANSWERS)('outlastErrors of %s', (_, ask) => {
  it('answers 429 with Retry-After when a limit rejects the call, and reveals no names', async () => {
    const response = await ask('/rejected');
    expect(response.status).toBe(429);
    expect(response.headers.get('content-type')).toBe('application/problem+json');
    expect(response.headers.get('x-trace')).toBeNull();
    const seconds = Number(response.headers.get('retry-after'));
    expect(seconds).toBeGreaterThanOrEqual(5);
    expect(seconds).toBeLessThanOrEqual(7);
    const text = await response.text();
    expect(text).not.toContain('secret');
    expect(JSON.parse(text)).toMatchObject({ status: 429, code: 'ERR_ADMISSION_REJECTED' });
  });

  it('answers 503 when a store is away', async () => {
    const response = await ask('/away');
    expect(response.status).toBe(503);
    expect(await response.json()).toMatchObject({ status: 503, code: 'ERR_STORE_UNAVAILABLE' });
  });

  it('leaves everything else to the application', async () => {
    expect(await (await ask('/fine')).text()).toBe('fine');
    const response = await ask('/other');
    expect(response.status).toBe(500);
    expect(await response.text()).toBe('ours');
  });
});

describe('Retry-After', () => {
  it('is never shorter than the limit asks for, and varies between callers', () => {
    for (const ms of [0, 1, 999, 1_000, 1_001, 60_000]) {
      const seconds = [0, 0.3, 0.6, 0.99].map(random => retryAfterSeconds(ms, random));
      expect(Math.min(...seconds) * 1_000).toBeGreaterThanOrEqual(ms);
      expect(new Set(seconds).size).toBeGreaterThan(1);
    }
  });
});
