// Sixteen clients of one process that push a limited task as fast as they are let in, and say when.
import { createOutlast, isOutlastError, task } from 'outlast';
import config from './outlast.config.mjs';

const outlast = createOutlast(config);
const limited = task('chaos.limited', {
  queue: 'nowhere',
  admission: { rate: { limit: 40, per: '1s', burst: 10 } },
});
const now = () => performance.timeOrigin + performance.now();

async function client(ends) {
  while (now() < ends) {
    const from = now();
    try {
      await outlast.push(limited);
      process.stdout.write(`${JSON.stringify({ from, to: now() })}\n`);
    } catch (error) {
      if (!isOutlastError(error, 'ERR_ADMISSION_REJECTED')) throw error;
      process.stdout.write('"refused"\n');
      await new Promise(resolve => setTimeout(resolve, Math.random() * error.retryAfterMs));
    }
  }
}

await outlast.admit(task('chaos.warm-up'));
process.stdout.write('"ready"\n');
await new Promise(resolve => process.stdin.once('data', resolve));
const ends = now() + 3_000;
await Promise.all(Array.from({ length: 16 }, () => client(ends)));
process.exit(0);
