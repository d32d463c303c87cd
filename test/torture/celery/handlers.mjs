import { createOutlast, task, unchecked } from 'outlast';
import config from './outlast.config.mjs';

const outlast = createOutlast(config);
const queue = process.env.TORTURE_QUEUE;
const args = { queue, args: unchecked(), result: unchecked() };
const wait = ms => new Promise(resolve => setTimeout(resolve, ms));

export const step = outlast.handler(task('fleet.step', args), {
  maxResurrections: 50,
  run: async ({ args: [value] }) => {
    await wait(50);
    return value + 1;
  },
});

export const total = outlast.handler(task('fleet.total', args), {
  maxResurrections: 50,
  run: ({ args: [parts] }) => parts.reduce((sum, part) => sum + part, 0),
});
