import type {
  BuryItem,
  CommitItem,
  ErrorRecord,
  FailItem,
  ReleaseItem,
  RunRef,
  StepStatus,
} from '../../ledger/ledger.ts';
import type { Envelope } from '../../task/envelope.ts';
import type { MemoryLedgerState } from './memory-ledger-state.ts';
import { isSettledBy, remember, type SettlingStep, type TaskRecord } from './memory-record.ts';

interface Settling {
  readonly step: SettlingStep;
  readonly ref: RunRef;
  readonly may: (record: TaskRecord, ref: RunRef) => boolean;
  readonly apply: (record: TaskRecord) => void;
}

/** The frame of every step that ends a run: compare, move, remember the run. */
function settle(state: MemoryLedgerState, settling: Settling): StepStatus {
  const { step, ref, may, apply } = settling;
  const record = state.records.get(ref.id);
  if (record === undefined) return 'absent';
  if (!may(record, ref)) {
    if (isSettledBy(record, ref, step)) {
      if (step === 'commit' && state.guards.countsRepeats()) state.tallies.count(record, 'done');
      return 'ok';
    }
    if (step === 'commit') state.tallies.count(record, 'stale');
    return 'stale';
  }
  apply(record);
  record.settled = { run: ref.run, step };
  state.note(record, step);
  record.worker = '';
  return 'ok';
}

export function commit(state: MemoryLedgerState, item: CommitItem): StepStatus {
  const { ref, outcome } = item;
  if (!state.records.has(ref.id) && state.guards.mayCommitAbsent()) state.put(ref.id, null);
  return settle(state, {
    step: 'commit',
    ref,
    may: (record, by) => state.guards.mayCommit(record, by),
    apply: record => {
      // The committing run is the one on record, unless a broken guard let another in: then it shows.
      record.epoch = ref.epoch;
      record.run = ref.run;
      record.result = outcome.kind === 'done' ? (outcome.result?.slice() ?? null) : null;
      record.why = outcome.kind === 'discarded' ? outcome.why : null;
      state.finish(record, outcome.kind, item);
      remember(record, outcome.kind, state.nowMs);
      for (const entry of item.after) state.writeAfter(entry);
    },
  });
}

export function fail(state: MemoryLedgerState, item: FailItem): StepStatus {
  const { ref, error, delayMs, reason, isCrash = false } = item;
  return settle(state, {
    step: 'fail',
    ref,
    may: (record, by) => state.guards.maySettle(record, by),
    apply: record => {
      if (isCrash) record.crashes += 1;
      else record.failures += 1;
      if (!isCrash) state.tallies.count(record, 'failed');
      if (delayMs === null) state.die(record, reason, error);
      else {
        state.tallies.count(record, isCrash ? 'resurrected' : 'retried');
        state.wait(record, isCrash ? null : delayMs);
      }
      const fact = isCrash ? 'crashed' : 'failed';
      remember(record, delayMs === null ? 'dead' : fact, state.nowMs, error);
    },
  });
}

export function release(state: MemoryLedgerState, item: ReleaseItem): StepStatus {
  return settle(state, {
    step: 'release',
    ref: item,
    may: (record, by) => state.guards.maySettle(record, by),
    apply: record => {
      state.wait(record, item.delayMs ?? null);
      remember(record, 'released', state.nowMs);
    },
  });
}

export function bury(state: MemoryLedgerState, item: BuryItem): StepStatus {
  if (item.kind === 'message') return buryMessage(state, item.envelope, item.reason, item.error);
  const { ref, reason, error } = item;
  return settle(state, {
    step: 'bury',
    ref,
    may: (record, by) => state.guards.maySettle(record, by),
    apply: record => {
      state.die(record, reason, error);
      remember(record, 'buried', state.nowMs, error);
    },
  });
}

/** The same message twice is one dead letter; any other record is left alone. */
export function buryMessage(
  state: MemoryLedgerState,
  envelope: Envelope,
  reason: string,
  error: ErrorRecord,
): StepStatus {
  const found = state.records.get(envelope.id);
  if (found !== undefined) {
    return found.state === 'dead' && found.envelope?.digest === envelope.digest ? 'ok' : 'stale';
  }
  const record = state.put(envelope.id, envelope);
  state.die(record, reason, error);
  remember(record, 'buried', state.nowMs, error);
  state.note(record, 'bury');
  return 'ok';
}
