// server.mjs
import fastify from 'fastify';
import { shutdownSignal, startWorker } from 'outlast';
import { outlastPlugin } from 'outlast/fastify';
import { outlast, placeOrder, pool, sendReceiptHandler } from './shop.mjs';

const app = fastify({ requestIdHeader: 'x-request-id' });
app.addHook('onClose', async () => {
  // Registered first, so it is closed last.
  await pool.end();
  console.log('closed');
});
await app.register(outlastPlugin, {
  outlast,
  services: () => [startWorker(outlast, { tasks: [sendReceiptHandler] })],
});
app.post('/orders', async (request, reply) => {
  reply.code(202);
  return await placeOrder(request.body);
});

const signal = shutdownSignal();
await app.listen({ port: process.env.PORT ?? 3000, host: '127.0.0.1' });
console.log(`listening on ${app.listeningOrigin}`);
signal.addEventListener('abort', () => void app.close());
