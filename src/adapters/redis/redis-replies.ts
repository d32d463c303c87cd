import type {
  CondemnReply,
  RaiseReply,
  ReapReply,
  RunRef,
  StepStatus,
  TaskRef,
} from '../../ledger/ledger.ts';
import { readDeath } from '../../ledger/death.ts';
import type { ReviveStatus } from '../../outbox/outbox-store.ts';

/** The scripts' answers by number, from 1. */
const STATUSES: readonly StepStatus[] = ['ok', 'stale', 'absent'];
const REVIVALS: readonly ReviveStatus[] = ['ok', 'conflict', 'absent', 'expired'];

export function statusOf(status: unknown): StepStatus {
  return STATUSES[(status as number) - 1] ?? 'stale';
}

export function raiseReplyOf(reply: unknown): RaiseReply {
  const [status, epoch = 0] = reply as readonly [number, number | undefined];
  const word = statusOf(status);
  return word === 'ok' ? { status: word, epoch } : { status: word };
}

export function revivalOf(status: unknown): ReviveStatus {
  return REVIVALS[(status as number) - 1] ?? 'conflict';
}

export function readCondemned(reply: unknown): CondemnReply {
  const [storeMs, workers, deaths] = reply as readonly [
    number,
    readonly Buffer[],
    readonly Buffer[],
  ];
  return {
    workers: workers.map(String),
    deaths: deaths.map(death => readDeath(String(death))),
    storeMs,
  };
}

type ReapedTask = readonly [
  ...task: [Buffer, Buffer, Buffer],
  crashes: number,
  isDead: number,
  worker: Buffer,
  /** Missing: an older version closed it. */
  death?: Buffer,
];

/** A full page: there may be more. */
export function readReaped(reply: unknown, most: number): ReapReply {
  const [storeMs, tasks, looked] = reply as readonly [number, readonly ReapedTask[], number];
  const lost = (isDead: number): ReapReply['returned'] =>
    tasks
      .filter(task => task[4] === isDead)
      .map(([id, name, queue, crashes, , worker, death]) => ({
        ...readRef([id, name, queue]),
        crashes,
        worker: String(worker),
        death: death ? readDeath(String(death)) : null,
      }));
  return { returned: lost(0), buried: lost(1), more: looked >= most, storeMs };
}

export function readRef([id, name, queue]: readonly [Buffer, Buffer, Buffer]): TaskRef {
  return { id: String(id), name: String(name), queue: String(queue) };
}

/** For each: the task, then epoch and run in one text. */
export function readRuns(fields: readonly Buffer[]): RunRef[] {
  const runs: RunRef[] = [];
  for (let at = 0; at + 1 < fields.length; at += 2) {
    const [epoch = '', ...run] = String(fields[at + 1]).split(' ');
    runs.push({ id: String(fields[at]), epoch: Number(epoch), run: run.join(' ') });
  }
  return runs;
}

/** Worst first. */
const RANKS: readonly string[] = ['absent', 'stale', 'conflict', 'expired', 'ok'];

/** The better of two answers about an item that is in one queue: the other queues answer as for an unknown one. */
export function better<Status extends string>(one: Status, other: Status): Status {
  return RANKS.indexOf(other) > RANKS.indexOf(one) ? other : one;
}
