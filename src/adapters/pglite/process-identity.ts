import { readFile, readlink } from 'node:fs/promises';
import { hostname } from 'node:os';

/** Distinguishes one process from every other, also from a later one with the same pid. */
export interface ProcessIdentity {
  readonly pid: number;
  /** Clock ticks from boot to the start of the process. Null if there is no /proc. */
  readonly startTicks: string | null;
  /** Changes with every boot: ticks of two boots must not be compared. */
  readonly bootId: string | null;
  /** A pid means something only inside its namespace: every container has a pid 1. */
  readonly pidNamespace: string | null;
  readonly host: string;
}

/** `unknown`: the process runs in another container or on another machine, which is not visible here. */
export type Liveness = 'alive' | 'dead' | 'unknown';

export async function identifyThisProcess(): Promise<ProcessIdentity> {
  const [stat, bootId, pidNamespace] = await Promise.all([
    readProcessStat(process.pid),
    textOrNull(readFile('/proc/sys/kernel/random/boot_id', 'utf8')),
    textOrNull(readlink('/proc/self/ns/pid')),
  ]);
  return {
    pid: process.pid,
    startTicks: stat?.startTicks ?? null,
    bootId,
    pidNamespace,
    host: hostname(),
  };
}

/**
 * Whether that very process still exists. A stopped or wedged process is alive. `dead` is for ever,
 * so it may be acted upon; `alive` may be outdated when it is read.
 */
export async function judgeLiveness(
  other: ProcessIdentity,
  self: ProcessIdentity,
): Promise<Liveness> {
  if (other.bootId !== self.bootId) {
    const isRebooted = other.bootId !== null && self.bootId !== null && other.host === self.host;
    return isRebooted ? 'dead' : 'unknown';
  }
  if (other.pidNamespace !== self.pidNamespace) return 'unknown';
  if (!hasPid(other.pid)) return 'dead';
  const stat = await readProcessStat(other.pid);
  // Some systems hide /proc of other users, and some have none: then only the pid can be checked.
  if (stat === null || other.startTicks === null) return hasPid(other.pid) ? 'alive' : 'dead';
  if (stat.isZombie) return 'dead';
  return stat.startTicks === other.startTicks ? 'alive' : 'dead';
}

function hasPid(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch (error) {
    // EPERM: the process exists and belongs to another user.
    return (error as NodeJS.ErrnoException).code !== 'ESRCH';
  }
}

interface ProcessStat {
  /** Ended with all its threads; only its parent has not read the exit code yet. */
  readonly isZombie: boolean;
  readonly startTicks: string;
}

async function readProcessStat(pid: number): Promise<ProcessStat | null> {
  const text = await textOrNull(readFile(`/proc/${pid}/stat`, 'utf8'));
  if (text === null) return null;
  // The second field is the command in parentheses and may itself hold spaces and parentheses.
  const fields = text.slice(text.lastIndexOf(')') + 2).split(' ');
  // Fields 3, 20 and 22 of proc(5).
  const [state, threads, startTicks] = [fields[0], Number(fields[17]), fields[19]];
  if (startTicks === undefined) return null;
  // A killed process shows Z as soon as its main thread is gone; another may still be in a write.
  return { isZombie: state === 'Z' && threads <= 1, startTicks };
}

/** Absence is an answer here: systems without /proc are judged by the pid alone. */
async function textOrNull(reading: Promise<string>): Promise<string | null> {
  try {
    return (await reading).trim();
  } catch {
    return null;
  }
}
