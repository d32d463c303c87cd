// @ts-check
/**
 * Outlives a test run that was killed. It is told on its standard input which process groups exist;
 * when the pipe closes it ends those that are left and removes the folder named by its argument.
 */
import { rmSync } from 'node:fs';
import { createInterface } from 'node:readline';
import { findStrays, signalGroup, waitUntilGone } from './process-group.mjs';

/** No test waits for a clean shutdown any more. */
const STOP_MS = 5_000;

const [folder] = process.argv.slice(2);
/** @type {Map<number, NodeJS.Signals>} */
const groups = new Map();

for await (const line of createInterface({ input: process.stdin })) {
  const message = JSON.parse(line);
  if ('add' in message) groups.set(message.add, message.signal);
  else groups.delete(message.remove);
}

await Promise.all(
  [...groups].map(async ([pid, signal]) => {
    signalGroup(pid, signal);
    if (await waitUntilGone(pid, STOP_MS)) return;
    signalGroup(pid, 'SIGKILL');
    await waitUntilGone(pid, STOP_MS);
  }),
);
if (folder !== undefined) {
  for (const { pid } of findStrays(folder)) process.kill(pid, 'SIGKILL');
  rmSync(folder, { recursive: true, force: true, maxRetries: 5 });
}
