import { outlastError } from '../errors/error.ts';

interface Timeouts {
  readonly timeoutMs: number | null;
  readonly softTimeoutMs: number | null;
  readonly expiresMs: number | null;
}

/** The contract itself, unless its times contradict each other: reported where they are declared, not by the first run. */
export function checkTimeouts<C extends Timeouts>(name: string, contract: C): C {
  const { timeoutMs, softTimeoutMs, expiresMs } = contract;
  if (timeoutMs === 0) throw noTime(name, 'timeout', 'no attempt could ever succeed');
  if (expiresMs === 0) throw noTime(name, 'expires', 'it could never begin');
  if (timeoutMs !== null && softTimeoutMs !== null && softTimeoutMs >= timeoutMs) {
    throw outlastError('ERR_OPTIONS_CONFLICT', {
      message: `the soft timeout of ${name} (${softTimeoutMs} ms) does not come before its timeout (${timeoutMs} ms)`,
      hint: 'Lower `softTimeout`, or raise `timeout`: a run is asked to stop first, and then ended.',
      fields: { options: ['softTimeout', 'timeout'] },
    });
  }
  return contract;
}

function noTime(name: string, option: 'timeout' | 'expires', so: string): Error {
  return outlastError('ERR_OPTION_RANGE', {
    message: `\`${option}\` of ${name} is no time at all: ${so}`,
    hint: "Give it a length, for example '30s', or leave it out.",
    fields: { option: `${option} of ${name}` },
  });
}
