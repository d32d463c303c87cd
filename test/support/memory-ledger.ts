import { MemoryLedgerReads } from '../../src/testing/memory/memory-ledger-reads.ts';
import { MemoryLedger } from '../../src/testing/memory/memory-ledger.ts';
import { MemoryResultStore } from '../../src/testing/memory/memory-result-store.ts';
import { ledgerModel } from '../conformance/ledger-driver.ts';
import type { LedgerReadsFixture } from '../conformance/ledger-reads.ts';

/** A clock that stands until it is moved. */
export function stoppedClock(): { now(): number; advance(ms: number): Promise<void> } {
  let nowMs = Date.UTC(2026, 0, 1);
  return { now: () => nowMs, advance: async ms => void (nowMs += ms) };
}

/** A ledger in RAM under such a clock. */
export async function makeLedger(): Promise<LedgerReadsFixture> {
  const clock = stoppedClock();
  const ledger = new MemoryLedger({ clock });
  const results = new MemoryResultStore(ledger);
  return {
    ledger,
    results,
    reads: new MemoryLedgerReads(ledger),
    readModel: ledgerModel(new MemoryLedgerReads(ledger)),
    advance: ms => clock.advance(ms),
    dispose: async () => undefined,
  };
}
