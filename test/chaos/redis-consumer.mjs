// Takes, writes down what it got, acknowledges; until it is killed. Arguments: URL, queue, lease, file.
import { appendFileSync } from 'node:fs';
import { setTimeout as delay } from 'node:timers/promises';
import { openRedisBroker } from '../../dist/adapters/redis/redis-broker.js';

const [url = '', queue = '', leaseMs = '', file = ''] = process.argv.slice(2);
const broker = await openRedisBroker(url, { leaseMs: Number(leaseMs) });

for (let turn = 0; ; turn++) {
  try {
    const taken = await broker.take([queue], 1 + (turn % 7));
    for (const { message } of taken)
      appendFileSync(file, `${'id' in message ? message.id : '?'}\n`);
    // Held for a moment, so that kills and pauses find something in its hands.
    await delay(turn % 5);
    if (turn % 11 === 10) await broker.giveBack(taken);
    else await broker.ack(taken);
    if (taken.length === 0) await delay(20);
  } catch {
    await delay(20);
  }
}
