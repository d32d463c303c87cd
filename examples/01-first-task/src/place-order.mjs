// src/place-order.mjs: the order and its task, in one transaction
import { outlast, pool } from './outlast.mjs';
import { sendReceipt } from './tasks.mjs';

const orderId = process.argv[2] ?? '17';
await pool.query('CREATE TABLE IF NOT EXISTS orders (id text PRIMARY KEY)');

async function placeOrder() {
  const client = await pool.connect();
  try {
    await client.query('BEGIN');
    await client.query('INSERT INTO orders (id) VALUES ($1)', [orderId]);
    const sent = await outlast.send(client, sendReceipt, { orderId }); // both or neither
    await client.query('COMMIT');
    return sent;
  } catch (error) {
    await client.query('ROLLBACK');
    throw error;
  } finally {
    client.release();
  }
}

const sent = await placeOrder();
const { mailId } = await sent.result({ timeout: '30s' }); // optional: wait for the outcome
console.log(`order ${orderId} is placed, its receipt is ${mailId}`);
await outlast.close();
await pool.end();
