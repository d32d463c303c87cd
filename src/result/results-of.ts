import type { ResultRecord, ResultStore } from './result-store.ts';

/**
 * What a ledger and a separate outbox know of a task. The ledger is asked again after the outbox: a task found in neither
 * may have moved from one to the other between the two reads.
 */
export function resultsOf(ledger: ResultStore, outbox: ResultStore): ResultStore {
  const isKnown = ({ state }: ResultRecord): boolean => state !== 'unknown';
  return {
    read: async id => {
      const first = await ledger.read(id);
      if (isKnown(first)) return first;
      const before = await outbox.read(id);
      return isKnown(before) ? before : await ledger.read(id);
    },
  };
}
