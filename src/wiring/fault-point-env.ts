import { closeSync, openSync } from 'node:fs';
import { outlastError } from '../errors/error.ts';
import {
  FAULT_POINTS,
  noFaults,
  type FaultPoint,
  type FaultPointName,
} from '../runtime/fault-point.ts';

type Action = 'kill' | 'stop';

/**
 * `OUTLAST_FAULT_POINT=worker.ran-not-committed:kill:3` kills this process the third time it gets there; a fourth part
 * names a file that is made when it happens, and while it is there it does not happen again: the process that takes the
 * place of the dead one inherits the variable. For chaos tests; without the variable a fault point does nothing.
 */
export function faultPointFromEnv(env: Readonly<Record<string, string | undefined>>): FaultPoint {
  const text = env['OUTLAST_FAULT_POINT'];
  if (text === undefined || text === '') return noFaults;
  const [name = '', action = 'kill', nth = '1', once = ''] = text.split(':');
  if (!isFaultPoint(name) || (action !== 'kill' && action !== 'stop') || !/^\d+$/.test(nth)) {
    throw outlastError('ERR_OPTION_RANGE', {
      message: `OUTLAST_FAULT_POINT is ${JSON.stringify(text)}`,
      hint: `Use name:kill|stop:count:file with one of ${FAULT_POINTS.join(', ')}.`,
      fields: { option: 'OUTLAST_FAULT_POINT' },
    });
  }
  return armed(name, { action, nth: Number(nth), once });
}

interface Arming {
  readonly action: Action;
  readonly nth: number;
  readonly once: string;
}

function armed(name: FaultPointName, { action, nth, once }: Arming): FaultPoint {
  let hits = 0;
  return reached => {
    if (reached !== name || ++hits !== nth || !isFirst(once)) return undefined;
    process.kill(process.pid, action === 'kill' ? 'SIGKILL' : 'SIGSTOP');
    // The signal takes effect at the next system call; nothing may happen in between.
    return action === 'kill' ? new Promise(() => undefined) : undefined;
  };
}

function isFirst(file: string): boolean {
  if (file === '') return true;
  try {
    closeSync(openSync(file, 'wx'));
    return true;
  } catch {
    return false;
  }
}

function isFaultPoint(name: string): name is FaultPointName {
  return (FAULT_POINTS as readonly string[]).includes(name);
}
