import { MemoryLedger } from '../../src/testing/memory/memory-ledger.ts';
import { MemoryLedgerReads } from '../../src/testing/memory/memory-ledger-reads.ts';
import { MemoryResultStore } from '../../src/testing/memory/memory-result-store.ts';
import { ledgerModel } from '../conformance/ledger-driver.ts';
import { describeLedgerProperty } from './ledger-property.ts';

describeLedgerProperty(
  'memory',
  async () => {
    let nowMs = Date.UTC(2026, 0, 1);
    const ledger = new MemoryLedger({ clock: { now: () => nowMs } });
    return {
      ledger,
      results: new MemoryResultStore(ledger),
      readModel: ledgerModel(new MemoryLedgerReads(ledger)),
      advance: async ms => void (nowMs += ms),
      dispose: async () => undefined,
    };
  },
  { numRuns: 500, maxCommands: 60 },
);
