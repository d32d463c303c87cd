import { outlastError } from '../errors/error.ts';
import {
  FAULT_POINTS,
  noFaults,
  type FaultPoint,
  type FaultPointName,
} from '../runtime/fault-point.ts';

type Action = 'kill' | 'stop';

/**
 * `OUTLAST_FAULT_POINT=worker.ran-not-committed:kill:3` kills this process the third time it gets there. For chaos tests
 * on real processes; without the variable a fault point does nothing.
 */
export function faultPointFromEnv(env: Readonly<Record<string, string | undefined>>): FaultPoint {
  const text = env['OUTLAST_FAULT_POINT'];
  if (text === undefined || text === '') return noFaults;
  const [name = '', action = 'kill', nth = '1'] = text.split(':');
  if (!isFaultPoint(name) || (action !== 'kill' && action !== 'stop') || !/^\d+$/.test(nth)) {
    throw outlastError('ERR_OPTION_RANGE', {
      message: `OUTLAST_FAULT_POINT is ${JSON.stringify(text)}`,
      hint: `Use name:kill|stop:count with one of ${FAULT_POINTS.join(', ')}.`,
      fields: { option: 'OUTLAST_FAULT_POINT' },
    });
  }
  return armed(name, action, Number(nth));
}

function armed(name: FaultPointName, action: Action, nth: number): FaultPoint {
  let hits = 0;
  return reached => {
    if (reached !== name || ++hits !== nth) return undefined;
    process.kill(process.pid, action === 'kill' ? 'SIGKILL' : 'SIGSTOP');
    // The signal takes effect at the next system call; nothing may happen in between.
    return action === 'kill' ? new Promise(() => undefined) : undefined;
  };
}

function isFaultPoint(name: string): name is FaultPointName {
  return (FAULT_POINTS as readonly string[]).includes(name);
}
