import { AFTER_LIST_BYTES, bytesOfEnvelope } from '../../ledger/batch-limits.ts';
import type { AfterEntry, AfterLog } from '../../ledger/ledger.ts';
import { slicesWithin } from '../../runtime/wakeable.ts';
import type { MemoryLedgerState } from './memory-ledger-state.ts';

/** The follow-ups of terminal steps. */
export function afterLog(state: MemoryLedgerState): AfterLog {
  return {
    async list(olderThanMs, limit) {
      const before = state.nowMs - olderThanMs;
      const due = [...state.after.values()].filter(({ dueMs }) => dueMs <= before);
      const oldest = due.toSorted((one, two) => one.dueMs - two.dueMs);
      const page = oldest.slice(0, limit).map(({ entry }) => entry);
      const [first = []] = slicesWithin(page, { count: limit, bytes: AFTER_LIST_BYTES, bytesOf });
      return first;
    },
    async strike(keys) {
      for (const key of keys) state.after.delete(key);
    },
    async defer(entries) {
      for (const { key, delayMs, isAttempt } of entries) {
        const found = state.after.get(key);
        if (found === undefined) continue;
        const attempts = (found.entry.attempts ?? 0) + (isAttempt ? 1 : 0);
        const entry = attempts === 0 ? found.entry : { ...found.entry, attempts };
        state.after.set(key, { entry, dueMs: state.nowMs + delayMs });
      }
    },
  };
}

function bytesOf(entry: AfterEntry): number {
  if ('publish' in entry) return bytesOfEnvelope(entry.publish);
  if ('ended' in entry) return bytesOfEnvelope(entry.ended.envelope);
  if ('part' in entry) return entry.body.length;
  return 'reply' in entry ? entry.reply.body.length : 0;
}
