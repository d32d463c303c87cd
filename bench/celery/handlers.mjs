// @ts-check
/** The same task for a worker of Outlast. */
import { appendFileSync, existsSync } from 'node:fs';
import { setTimeout as delay } from 'node:timers/promises';
import { createOutlast, task, unchecked } from '../../dist/index.js';

const outlast = createOutlast({ database: process.env.BENCH_DATABASE ?? '' });

const stay = task('recovery.stay', { queue: 'recovery', args: unchecked(), kwargs: unchecked() });

export const stayHandler = outlast.handler(stay, async ({ args: [path] }) => {
  if (!existsSync(path)) return;
  appendFileSync(path, `${process.pid}\n`);
  while (existsSync(path)) await delay(50);
});
