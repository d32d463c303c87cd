// @ts-check
/**
 * Preloaded into a process (`--import`, see fault-env.ts), it arms one fault point of that process and of all that it starts:
 * `OUTLAST_FAULT_POINT=worker.ran-not-committed:kill:3` kills the process the third time it gets there. A fourth part names a
 * file that is made when it happens; while the file is there it does not happen again, so that the process that takes the
 * place of the dead one lives. The package has no code that does this.
 */
import { closeSync, openSync } from 'node:fs';
import { FAULT_POINTS } from '../../dist/runtime/runtime.js';

const text = process.env['OUTLAST_FAULT_POINT'] ?? '';
const [name = '', action = 'kill', nth = '1', once = ''] = text.split(':');
const isKnown = FAULT_POINTS.some(point => point === name);
if (!isKnown || !['kill', 'stop'].includes(action) || !/^\d+$/.test(nth))
  throw new Error(`OUTLAST_FAULT_POINT is ${text}; use name:kill|stop:count:file`);

let hits = 0;

/** @param {string} reached */
function faultPoint(reached) {
  if (reached !== name || ++hits !== Number(nth) || !isFirst()) return undefined;
  process.kill(process.pid, action === 'kill' ? 'SIGKILL' : 'SIGSTOP');
  // The signal takes effect at the next system call; nothing may happen in between.
  return action === 'kill' ? new Promise(() => undefined) : undefined;
}

function isFirst() {
  if (once === '') return true;
  try {
    closeSync(openSync(once, 'wx'));
    return true;
  } catch {
    return false;
  }
}

Object.defineProperty(globalThis, Symbol.for('outlast.fault-point'), { value: faultPoint });
