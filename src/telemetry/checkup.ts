/** Examines one store for problems that are about to occur, in its own dialect. */
export interface Checkup {
  run(limits: CheckLimits): Promise<readonly Check[]>;
}

/** `advice` is no reason to wake an operator; `problem` is. */
export interface Check {
  readonly name: string;
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
  /** How long a chord may wait for its parts before an operator should check them. */
  readonly maxChordMs: number;
}

export const CHECK_LIMITS: CheckLimits = Object.freeze({
  maxClockSkewMs: 2_000,
  maxTransactionMs: 300_000,
  maxDeadTuples: 100_000,
  maxPendingMs: 300_000,
  maxOrphanMs: 60_000,
  maxChordMs: 86_400_000,
});

type Figures = Check['details'];

export function ok(name: string, message: string, details: Figures = {}): Check {
  return { name, status: 'ok', message, advice: null, details };
}

export function problem(name: string, message: string, advice: string, details: Figures): Check {
  return { name, status: 'problem', message, advice, details };
}

export function advise(name: string, message: string, advice: string, details: Figures): Check {
  return { name, status: 'advice', message, advice, details };
}

/** A length of time for people. */
export function spoken(ms: number): string {
  if (ms < 1_000) return `${Math.round(ms)} ms`;
  if (ms < 120_000) return `${(ms / 1_000).toFixed(1)} s`;
  return ms < 7_200_000 ? `${Math.round(ms / 60_000)} min` : `${Math.round(ms / 3_600_000)} h`;
}
