/** Examines one store for problems that are about to occur, in its own dialect. */
export interface Checkup {
  run(limits: CheckLimits): Promise<readonly Check[]>;
}

/** Every check by its id, with what it is about; the reference page has the same table. */
export const CHECKS = {
  connection: 'A store or broker does not answer.',
  permission: 'The user of the URL may not do what relays and workers do.',
  server: 'The version of a database server.',
  clock:
    'The clocks of this process and of a database or Redis differ: `eta` and `expires` are off.',
  settings: 'A setting of the database or role that Outlast cannot work under.',
  schema: 'Tables are missing, older, or of a version that this one cannot work with.',
  autovacuum: 'Vacuum is off or late for our tables, which then grow.',
  bloat: 'A table has more dead rows than it should have.',
  snapshots: 'A transaction has been open for so long that dead rows cannot be removed.',
  backlog: 'How long the oldest row has been due.',
  relays: 'Something is due, and no process is alive that takes it on.',
  format: 'Rows in a format of a newer version.',
  claims: 'Rows that are claimed by relays which are gone.',
  ordering: 'Ordering keys that are parked behind a dead letter.',
  recovery: 'Tasks of lost workers, or follow-ups, that no process takes up.',
  queues: 'Queues with tasks or messages from which no worker takes.',
  handlers: 'Tasks for which no worker has a handler.',
  chords: 'Chords that have been open for very long.',
  objectives: 'Objectives of tasks that use up their budget too fast.',
  schedules: 'Schedules that cannot be read, or that two configurations define differently.',
  tiers: 'Tasks in a broker or ledger that is not configured any more.',
  memory: 'A Redis that throws keys away when its memory is full.',
  durability: 'A Redis that loses what it has when it stops.',
  room: 'A Redis that is nearly full, so that nothing new comes in.',
  alarms: 'A RabbitMQ that accepts no messages: a memory or disk alarm.',
  topology: 'Queues and exchanges that RabbitMQ does not have.',
  deliveries: 'Quorum queues that drop a message after it was given back a few times.',
  config: 'Settings that are legal and seldom meant.',
} as const;

export type CheckName = keyof typeof CHECKS;

/** `advice` is no reason to wake an operator; `problem` is. */
export interface Check {
  readonly name: CheckName;
  readonly status: 'ok' | 'advice' | 'problem';
  readonly message: string;
  /** What to do about it; null if nothing has to be done. */
  readonly advice: string | null;
  /** The figures behind the message. */
  readonly details: Readonly<Record<string, unknown>>;
}

export interface CheckLimits {
  /** Between the clock of this process and the store's. */
  readonly maxClockSkewMs: number;
  /** How long a transaction may keep vacuum from removing dead rows. */
  readonly maxTransactionMs: number;
  readonly maxDeadTuples: number;
  /** How long a row may be due before an operator should check the relay. */
  readonly maxPendingMs: number;
  /** How long a task that lost its owner may lie there before an operator should check what recovers it. */
  readonly maxOrphanMs: number;
  /** The same where no worker is alive. A resurrector would have taken it up by then; left alone, none is alive either. */
  readonly maxUnreapedMs: number;
  /** How long a chord may wait for its parts before an operator should check them. */
  readonly maxChordMs: number;
}

export const CHECK_LIMITS: CheckLimits = Object.freeze({
  maxClockSkewMs: 2_000,
  maxTransactionMs: 300_000,
  maxDeadTuples: 100_000,
  maxPendingMs: 300_000,
  maxOrphanMs: 60_000,
  maxUnreapedMs: 15_000,
  maxChordMs: 86_400_000,
});

type Figures = Check['details'];

export function ok(name: CheckName, message: string, details: Figures = {}): Check {
  return { name, status: 'ok', message, advice: null, details };
}

export function problem(name: CheckName, message: string, advice: string, details: Figures): Check {
  return { name, status: 'problem', message, advice, details };
}

export function advise(name: CheckName, message: string, advice: string, details: Figures): Check {
  return { name, status: 'advice', message, advice, details };
}

/** A length of time for people. */
export function spoken(ms: number): string {
  if (ms < 1_000) return `${Math.round(ms)} ms`;
  if (ms < 120_000) return `${(ms / 1_000).toFixed(1)} s`;
  return ms < 7_200_000 ? `${Math.round(ms / 60_000)} min` : `${Math.round(ms / 3_600_000)} h`;
}
