// @ts-check
/**
 * What a worker tells about itself while it works: after so many tasks, and when it pauses, one line with the time of the
 * last one, how many there were, and the CPU time of the process. The same for every candidate; asking for the CPU time and
 * writing take as long as a few tasks do.
 */
import { appendFileSync } from 'node:fs';

const FILE = `${process.env.BENCH_FOLDER}/${process.pid}`;
const EVERY = 500;
const PAUSE_MS = 50;

let count = 0;
let lastAt = 0;
let isTold = true;

/** A task has run. */
export function ran() {
  count += 1;
  lastAt = performance.timeOrigin + performance.now();
  isTold = false;
  if (count % EVERY === 0) tell();
}

function tell() {
  const { user, system } = process.cpuUsage();
  appendFileSync(FILE, `${lastAt} ${count} ${user + system}\n`);
  isTold = true;
}

setInterval(() => {
  if (!isTold) tell();
}, PAUSE_MS).unref();

/** Notes an event of a task with its time, for those who measure single ones. @param {readonly unknown[]} words */
export function note(...words) {
  const at = performance.timeOrigin + performance.now();
  appendFileSync(`${process.env.BENCH_FOLDER}/notes`, `${at} ${process.pid} ${words.join(' ')}\n`);
}
