// @ts-check
/** `npm start`: from a bare clone to a running `outlast dev`. */
import { spawn } from 'node:child_process';
import { constants } from 'node:os';
import { join } from 'node:path';
import {
  PrepareError,
  ROOT,
  ensureBuilt,
  ensureInstalled,
  requireNode,
  say,
  watchParent,
} from './prepare.mjs';

/**
 * One Ctrl-C arrives here twice: from the terminal, which signals the whole process group, and from
 * npm, which passes on what it got. To `outlast dev` a second signal means "exit at once", so
 * signals this close together count as one.
 */
const SAME_SIGNAL_MS = 500;

try {
  requireNode();
  await ensureInstalled();
  await ensureBuilt();
  startDev();
} catch (error) {
  if (!(error instanceof PrepareError)) throw error;
  say(error.message);
  process.exitCode = 1;
}

function startDev() {
  const child = spawn(
    process.execPath,
    [join(ROOT, 'bin', 'outlast.js'), 'dev', ...process.argv.slice(2)],
    {
      // The channel is a lifeline: it closes when this process is killed, and the child then drains.
      stdio: ['inherit', 'inherit', 'inherit', 'ipc'],
      env: { ...process.env, OUTLAST_LIFELINE: '1' },
      // In a group of its own the child hears of Ctrl-C only from us, and so exactly once.
      detached: process.platform !== 'win32',
    },
  );
  let lastSignalAt = -Infinity;
  /** @param {NodeJS.Signals} signal */
  const forward = signal => {
    const now = performance.now();
    if (now - lastSignalAt > SAME_SIGNAL_MS) child.kill(signal);
    lastSignalAt = now;
  };
  process.on('SIGINT', forward).on('SIGTERM', forward);
  // A closed terminal is a request to stop like any other.
  process.on('SIGHUP', () => forward('SIGTERM'));
  watchParent(() => {
    if (lastSignalAt === -Infinity) forward('SIGTERM');
  });
  child.on('exit', (code, signal) => {
    process.exitCode = code ?? 128 + (signal === null ? 0 : constants.signals[signal]);
  });
}
