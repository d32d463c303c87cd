import type { RefusalLog } from '../../ledger/ledger.ts';
import type { MemoryLedgerState } from './memory-ledger-state.ts';
import { copyEnvelope, remember, type TaskRecord } from './memory-record.ts';

/** The tasks that were set aside in a ledger in memory. */
export function memoryRefusals(state: MemoryLedgerState): RefusalLog {
  const asideById = (id: string): TaskRecord | 'stale' | 'absent' => {
    const record = state.records.get(id);
    if (record === undefined) return 'absent';
    return record.state === 'waiting' && record.refused !== null ? record : 'stale';
  };
  return {
    async list(limit, after) {
      const found = [...state.records.values()].flatMap(record => {
        const { refused, envelope } = record;
        if (refused === null || envelope === null || record.state !== 'waiting') return [];
        if (record.dueMs > state.nowMs) return [];
        return [{ refused, envelope, isBegun: record.epoch > 0 }];
      });
      // The mark counts how often any task was set aside.
      found.sort((a, b) => Number(a.refused.mark) - Number(b.refused.mark));
      const rest = found.filter(({ refused }) => Number(refused.mark) > Number(after ?? 0));
      const page = rest.slice(0, limit);
      const tasks = page.map(({ refused, envelope, isBegun }) => ({
        envelope: copyEnvelope(envelope),
        waitedMs: state.nowMs - refused.atMs,
        worker: refused.worker,
        isBegun,
        mark: refused.mark,
      }));
      return { tasks, next: page.length < rest.length ? (tasks.at(-1)?.mark ?? null) : null };
    },
    async bury(id, error) {
      const record = asideById(id);
      if (typeof record === 'string') return record;
      // As if it had been begun: a task that never was has no follow-ups.
      record.epoch += 1;
      state.die(record, 'ERR_TASK_UNKNOWN', error);
      remember(record, 'buried', state.nowMs, error);
      state.note(record, 'bury');
      return 'ok';
    },
    async handBack(id, mark) {
      const record = asideById(id);
      if (typeof record === 'string') return record;
      if (!state.guards.mayHandBack(record, mark)) return 'stale';
      state.records.delete(id);
      state.note(record, 'hand back');
      return 'ok';
    },
  };
}
