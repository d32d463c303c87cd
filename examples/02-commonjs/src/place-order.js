const { outlast, pool } = require('./outlast.js');
const { sendReceipt } = require('./tasks.js');

async function placeOrder(orderId) {
  const client = await pool.connect();
  try {
    await client.query('BEGIN');
    await client.query('INSERT INTO orders (id) VALUES ($1)', [orderId]);
    const sent = await outlast.send(client, sendReceipt, { orderId });
    await client.query('COMMIT');
    return sent;
  } catch (error) {
    await client.query('ROLLBACK');
    throw error;
  } finally {
    client.release();
  }
}

async function main(orderId = '17') {
  await pool.query('CREATE TABLE IF NOT EXISTS orders (id text PRIMARY KEY)');
  const sent = await placeOrder(orderId);
  const { mailId } = await sent.result({ timeout: '30s' });
  console.log(`order ${orderId} is placed, its receipt is ${mailId}`);
  await outlast.close();
  await pool.end();
}

void main(process.argv[2]);
