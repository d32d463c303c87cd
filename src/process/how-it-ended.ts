import { readFileSync } from 'node:fs';
import { ASKED, type Death } from '../ledger/death.ts';

/** What a heartbeat thread writes to its supervisor: `stuck`, before it kills the process; `full`: the heap may be. */
export const LAST_WORDS = { stuck: 'stuck', full: 'full' } as const;
/** The file descriptor of a worker process that leads to its supervisor. A thread can write to it while the loop stands. */
export const LAST_WORDS_FD = 4;
/** Near this share of the largest heap, an abort is put down to it. */
export const FULL_HEAP = 0.8;

/** What a supervisor knows about a process that has ended. */
export interface Ended {
  readonly code: number | null;
  readonly signal: NodeJS.Signals | null;
  /** What its heartbeat thread has written. */
  readonly lastWords: string;
  /** The supervisor killed it, because it did not end in time. */
  readonly isKilled: boolean;
  /** The system has killed a process here for its memory since a moment ago. */
  readonly isMemoryShort: () => boolean;
}

/** Names the cause of a death where there is a proof of it, and otherwise only the signal. */
export function howItEnded({ code, signal, lastWords, isKilled, isMemoryShort }: Ended): Death {
  const words = lastWords.trim().split('\n');
  const last = words.at(-1) ?? '';
  if (signal === null)
    return code === 0 ? ASKED : { kind: 'exited', message: `exit code ${code ?? 'unknown'}` };
  if (signal === 'SIGKILL') {
    if (last.startsWith(LAST_WORDS.stuck))
      return {
        kind: 'stuck-loop',
        message: `its event loop stood still for ${last.slice(LAST_WORDS.stuck.length + 1)} ms`,
      };
    if (isKilled)
      return {
        kind: 'shutdown-timeout',
        message: 'killed: it did not end within worker.shutdownTimeout',
      };
    if (isMemoryShort())
      return { kind: 'out-of-memory', message: 'signal SIGKILL: the system was out of memory' };
  }
  // Node aborts when its heap is full; so do assertions of native code.
  if (signal === 'SIGABRT' && words.includes(LAST_WORDS.full))
    return { kind: 'out-of-memory', message: 'signal SIGABRT: its heap was full' };
  return { kind: 'signal', message: `signal ${signal}` };
}

const LOOK_MS = 1_000;
/** A process takes a moment to die, and its supervisor to see it. */
const MOMENT_LOOKS = 5;
const OF_THIS_GROUP = ['/sys/fs/cgroup/memory.events', '/sys/fs/cgroup/memory/memory.oom_control'];
/** Of the whole machine: where the memory of a group is not counted. */
const OF_MACHINE = '/proc/vmstat';

/** Watches how many processes the system has killed for their memory; it knows of none where it cannot read that. */
export class MemoryKills {
  readonly #looks: number[] = [];
  readonly #read: () => number | null;
  readonly #timer: NodeJS.Timeout;

  constructor(read: () => number | null = readMemoryKills()) {
    this.#read = read;
    this.#look();
    this.#timer = setInterval(() => this.#look(), LOOK_MS).unref();
  }

  /** Whether there was one in the last seconds. */
  isRecent(): boolean {
    const now = this.#read();
    const [before = now] = this.#looks;
    return now !== null && before !== null && now > before;
  }

  close(): void {
    clearInterval(this.#timer);
  }

  #look(): void {
    const count = this.#read();
    if (count === null) return this.close();
    this.#looks.push(count);
    if (this.#looks.length > MOMENT_LOOKS) this.#looks.shift();
  }
}

function readMemoryKills(): () => number | null {
  const file = [...OF_THIS_GROUP, OF_MACHINE].find(name => countIn(name) !== null);
  return () => (file === undefined ? null : countIn(file));
}

function countIn(file: string): number | null {
  try {
    const count = /^oom_kill (\d+)$/m.exec(readFileSync(file, 'utf8'))?.[1];
    return count === undefined ? null : Number(count);
  } catch {
    return null;
  }
}
