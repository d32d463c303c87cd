import { ROW_SCHEMA_VERSION } from './outbox-writer.ts';
import { advise, ok, problem, spoken, type Check, type CheckLimits } from '../telemetry/checkup.ts';

/** The result of checking an outbox, in any dialect. */
export interface OutboxFigures {
  /** Rows in an unknown format. */
  readonly unsupported: number;
  /** Rows claimed by relays that have been gone for longer than allowed. */
  readonly orphans: number;
  /** Relays with a lease. */
  readonly relays: number;
  readonly deadLetters: number;
  /** Ordering keys behind a dead letter. */
  readonly parked: number;
  readonly oldestPendingMs: number | null;
}

export function outboxChecks(figures: OutboxFigures, limits: CheckLimits): readonly Check[] {
  return [
    backlogCheck(figures, limits),
    formatCheck(figures),
    claimsCheck(figures, limits),
    parkedCheck(figures),
  ];
}

/** The answer was made at some time between request and reply; only the difference beyond that is skew. */
export function clockCheck(
  serverMs: number,
  asked: { readonly beforeMs: number; readonly afterMs: number; readonly whose?: string },
  limits: CheckLimits,
): Check {
  const { beforeMs, afterMs, whose = 'the database' } = asked;
  const skewMs = serverMs < beforeMs ? serverMs - beforeMs : Math.max(0, serverMs - afterMs);
  const details = { skewMs };
  if (Math.abs(skewMs) <= limits.maxClockSkewMs)
    return ok('clock', `the clocks of this process and of ${whose} agree`, details);
  const way = skewMs > 0 ? 'behind' : 'ahead of';
  const message = `the clock of this process is ${spoken(Math.abs(skewMs))} ${way} that of ${whose}`;
  const advice = '`eta` and `expires` are counted by this clock: synchronise it (NTP).';
  return problem('clock', message, advice, details);
}

function backlogCheck(figures: OutboxFigures, limits: CheckLimits): Check {
  const { oldestPendingMs, relays, deadLetters } = figures;
  const details = { oldestPendingMs, relays, deadLetters };
  if (oldestPendingMs === null) return ok('backlog', 'no row is due', details);
  const message = `the oldest row has been due for ${spoken(oldestPendingMs)}`;
  if (oldestPendingMs <= limits.maxPendingMs) return ok('backlog', message, details);
  const advice = 'See that a relay runs (npx outlast relay) and what its log says.';
  return problem('backlog', `${message}; relays with a lease: ${relays}`, advice, details);
}

function formatCheck({ unsupported }: OutboxFigures): Check {
  const details = { unsupported, known: ROW_SCHEMA_VERSION };
  if (unsupported === 0) return ok('format', 'every row is in a known format', details);
  const message = `${unsupported} rows are in a format of a newer version, and no relay of this one takes them`;
  return problem('format', message, 'Start a relay of the version that wrote them.', details);
}

function claimsCheck({ orphans }: OutboxFigures, limits: CheckLimits): Check {
  const details = { orphans };
  if (orphans === 0) return ok('claims', 'no claim has outlived its relay', details);
  const age = spoken(limits.maxOrphanMs);
  const message = `${orphans} rows are claimed by relays that have been gone for longer than ${age}`;
  const advice = 'Any relay gives them back with its next claim: start one (npx outlast relay).';
  return problem('claims', message, advice, details);
}

function parkedCheck({ parked }: OutboxFigures): Check {
  const details = { parked };
  if (parked === 0) return ok('ordering', 'no dead letter parks its key', details);
  const message = `${parked} ordering keys are parked behind a dead letter`;
  const advice = 'Retry or purge those letters: npx outlast dead-letters list.';
  return advise('ordering', message, advice, details);
}
