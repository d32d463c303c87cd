// server.mjs
import express from 'express';
import { shutdownSignal, startWorker } from 'outlast';
import { outlastContext, outlastErrors } from 'outlast/express';
import { outlast, placeOrder, pool, sendReceiptHandler } from './shop.mjs';

const app = express();
app.use(outlastContext(outlast)); // before the routes
app.use(express.json());
app.post('/orders', async (req, res) => {
  res.status(202).json(await placeOrder(req.body));
});
app.use(outlastErrors()); // after the routes

const signal = shutdownSignal();
const worker = await startWorker(outlast, { tasks: [sendReceiptHandler] });
const server = app.listen(process.env.PORT ?? 3000, '127.0.0.1', () => {
  console.log(`listening on http://127.0.0.1:${server.address().port}`);
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
