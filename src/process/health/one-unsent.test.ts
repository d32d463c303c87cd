import { fork } from 'node:child_process';
import { writeFileSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, it, onTestFinished } from 'vitest';
import { OneUnsent } from './one-unsent.ts';

/** Reads nothing until it is told to by a signal. */
const READER = `import { writeSync } from 'node:fs';
process.on('message', () => undefined);
writeSync(1, 'ready');`;

it('keeps one report in memory while the reader is stopped, and sends newer ones when it goes on', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'outlast-unsent-'));
  const file = join(folder, 'reader.mjs');
  writeFileSync(file, READER);
  const reader = fork(file, [], { stdio: ['ignore', 'pipe', 'inherit', 'ipc'] });
  onTestFinished(() => {
    reader.kill('SIGKILL');
    rmSync(folder, { recursive: true });
  });
  await new Promise(resolve => reader.stdout?.once('data', resolve));
  reader.kill('SIGSTOP');
  let begun = 0;
  let taken = 0;
  const figures = 'x'.repeat(1_048_576);
  const reports = new OneUnsent(
    () =>
      new Promise(resolve => {
        begun += 1;
        reader.send({ figures }, () => {
          taken += 1;
          resolve();
        });
      }),
  );
  for (let turn = 0; turn < 50; turn += 1) {
    reports.send();
    await new Promise(resolve => setImmediate(resolve));
  }
  // A pipe takes less than one of these.
  expect([begun, taken]).toEqual([1, 0]);
  reader.kill('SIGCONT');
  await reports.sendLast();
  expect([begun, taken]).toEqual([2, 2]);
});
