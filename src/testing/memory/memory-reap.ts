import { type Death, HOST_LOST, deathBy, recordOfDeath } from '../../ledger/death.ts';
import type { CondemnReply, CondemnTarget, LostTask, ReapReply } from '../../ledger/ledger.ts';
import { taskRef } from './memory-begin.ts';
import type { MemoryLedgerState } from './memory-ledger-state.ts';
import { remember, type TaskRecord, type WorkerRow } from './memory-record.ts';

/** Closes incarnations. From here on nothing begins under them, so their runs can only become fewer. */
export function condemn(
  state: MemoryLedgerState,
  target: CondemnTarget,
): Omit<CondemnReply, 'storeMs'> {
  const isMeant = (row: WorkerRow): boolean => {
    switch (target.kind) {
      case 'expired':
        return state.guards.isLapsed(row, state.nowMs);
      case 'process':
        return row.process === target.process;
      case 'worker':
        return row.worker === target.worker;
    }
  };
  const closed = [...state.workers.values()].filter(row => !row.isClosed && isMeant(row));
  const living = new Set(
    [...state.workers.values()]
      .filter(row => !row.isClosed && !state.guards.isLapsed(row, state.nowMs))
      .map(({ host }) => host),
  );
  for (const row of closed) {
    const isHostLost = target.kind === 'expired' && !living.has(row.host);
    row.death = isHostLost ? HOST_LOST : deathBy(target);
    row.isClosed = true;
    row.ran = runningUnder(state, row.worker);
    state.noteWorker(row, 'condemn', target.kind);
  }
  return { workers: closed.map(row => row.worker), deaths: closed.map(row => row.death) };
}

/** Brings back up to `limit` tasks; a row is dropped when all its runs were checked. */
export function reap(state: MemoryLedgerState, limit: number): ReapReply {
  const returned: LostTask[] = [];
  const buried: LostTask[] = [];
  for (const row of state.workers.values()) {
    if (!row.isClosed) continue;
    while (row.ran.length > 0 && returned.length + buried.length < limit) {
      const record = state.records.get(row.ran.shift() ?? '');
      if (record === undefined || !state.guards.mayReap(record, row)) continue;
      const isBuried = bringBack(state, record, row.death);
      if (record.envelope === null) continue;
      const lost = {
        ...taskRef({ ...record, envelope: record.envelope }),
        crashes: record.crashes,
        worker: row.worker,
        death: row.death,
      };
      (isBuried ? buried : returned).push(lost);
    }
    if (row.ran.length === 0) state.workers.delete(row.worker);
  }
  const more = returned.length + buried.length >= limit;
  return { returned, buried, more, storeMs: state.nowMs };
}

function bringBack(state: MemoryLedgerState, record: TaskRecord, death: Death | null): boolean {
  record.crashes += 1;
  const isSpent = record.crashes > record.crashBudget;
  if (isSpent) {
    const last = death === null ? '' : `; the last time: ${death.message}`;
    const message = `its worker died ${record.crashes} times${last}`;
    state.die(record, 'ERR_RESURRECTIONS_SPENT', {
      type: 'ERR_RESURRECTIONS_SPENT',
      message,
      traceback: '',
    });
  } else {
    state.tallies.count(record, 'resurrected');
    state.wait(record, null);
  }
  const error = death === null ? undefined : recordOfDeath(death);
  remember(record, isSpent ? 'dead' : 'reaped', state.nowMs, error);
  state.note(record, 'reap');
  record.worker = '';
  return isSpent;
}

function runningUnder(state: MemoryLedgerState, worker: string): string[] {
  const isRun = (record: TaskRecord): boolean =>
    record.state === 'running' && record.worker === worker;
  return [...state.records.values()].filter(isRun).map(record => record.id);
}
