// server.mjs
import { serve } from '@hono/node-server';
import { Hono } from 'hono';
import { shutdownSignal, startWorker } from 'outlast';
import { outlastContext, outlastErrors } from 'outlast/hono';
import { outlast, placeOrder, pool, sendReceiptHandler } from './shop.mjs';

const app = new Hono();
app.use(outlastContext(outlast)); // before the routes
app.onError(outlastErrors());
app.post('/orders', async c => c.json(await placeOrder(await c.req.json()), 202));

const signal = shutdownSignal();
const worker = await startWorker(outlast, { tasks: [sendReceiptHandler] });
const options = { fetch: app.fetch, port: process.env.PORT ?? 3000, hostname: '127.0.0.1' };
const server = serve(options, ({ port }) => {
  console.log(`listening on http://127.0.0.1:${port}`);
});
signal.addEventListener('abort', async () => {
  const closed = new Promise(resolve => server.close(resolve)); // no new requests
  server.closeIdleConnections();
  await closed;
  await worker.stop(); // drains
  await outlast.close();
  await pool.end();
  console.log('closed');
});
