import type { Envelope } from '../../src/task/envelope.ts';
import { ledgerBroker, MemoryBroker } from '../../src/adapters/memory/memory-broker.ts';
import type { MemoryBrokerConnection } from '../../src/adapters/memory/memory-broker.ts';
import { MemoryEffects } from '../../src/adapters/memory/memory-effects.ts';
import { MemoryLedger } from '../../src/adapters/memory/memory-ledger.ts';
import { MemoryOutboxStore } from '../../src/adapters/memory/memory-outbox-store.ts';
import { MemoryReadModel } from '../../src/adapters/memory/memory-read-model.ts';
import { MemoryResultStore } from '../../src/adapters/memory/memory-result-store.ts';
import { describeBroker, describeLedgerBroker } from './broker.ts';
import { describeEffectDoor } from './effect-door.ts';
import type { LedgerFixture } from './ledger-driver.ts';
import { describeLedger } from './ledger.ts';
import { describeOutboxOrdering } from './outbox-ordering.ts';
import { describeOutboxStore, type OutboxFixture, type RowOrder } from './outbox-store.ts';
import { describeResultStore, type ResultFixture } from './result-store.ts';

const dispose = async (): Promise<void> => undefined;

/** A clock that stands until it is moved. */
function stoppedClock(): { now(): number; advance(ms: number): Promise<void> } {
  let nowMs = Date.UTC(2026, 0, 1);
  return { now: () => nowMs, advance: async ms => void (nowMs += ms) };
}

async function makeLedger(): Promise<LedgerFixture> {
  const clock = stoppedClock();
  const ledger = new MemoryLedger({ clock });
  const results = new MemoryResultStore(ledger);
  return {
    ledger,
    results,
    readModel: new MemoryReadModel(ledger),
    advance: ms => clock.advance(ms),
    dispose,
  };
}

async function makeOutbox(isOneDatabase: boolean): Promise<OutboxFixture & ResultFixture> {
  const clock = stoppedClock();
  const ledger = new MemoryLedger({ clock });
  const store = new MemoryOutboxStore(isOneDatabase ? { clock, ledger } : { clock });
  return {
    store,
    ledger,
    results: new MemoryResultStore(ledger, store),
    readModel: new MemoryReadModel(ledger, store),
    write: async (envelopes: readonly Envelope[], order?: RowOrder) => {
      const tx = store.begin();
      store.write(tx, envelopes, order);
      tx.commit();
    },
    writeRolledBack: async envelopes => {
      const tx = store.begin();
      store.write(tx, envelopes);
      tx.rollback();
    },
    countRows: async taskIds =>
      [...store.rows.values()].filter(row => taskIds.includes(row.envelope.id)).length,
    nowMs: async () => clock.now(),
    advance: ms => clock.advance(ms),
    dispose,
  };
}

describeLedger('memory', makeLedger);
describeOutboxStore('memory, broker apart', () => makeOutbox(false));
describeOutboxStore('memory, one database', () => makeOutbox(true));
describeOutboxOrdering('memory, broker apart', () => makeOutbox(false));
describeOutboxOrdering('memory, one database', () => makeOutbox(true));
describeResultStore('memory', () => makeOutbox(true));

describeBroker('memory', async () => {
  const broker = new MemoryBroker();
  return {
    connect: async () => broker.connect(),
    disconnect: async connection => broker.disconnect(connection as MemoryBrokerConnection),
    dispose,
  };
});

describeLedgerBroker('memory', async () => {
  const ledger = new MemoryLedger({ clock: stoppedClock() });
  return { ledger, broker: ledgerBroker(ledger), dispose };
});

describeEffectDoor('memory', async () => {
  const clock = stoppedClock();
  const ledger = new MemoryLedger({ clock });
  const rows: string[] = [];
  return {
    ledger,
    results: new MemoryResultStore(ledger),
    readModel: new MemoryReadModel(ledger),
    door: new MemoryEffects(ledger),
    write: async (tx, key) => tx.write(() => rows.push(key)),
    count: async key => rows.filter(row => row === key).length,
    canInterleave: true,
    advance: ms => clock.advance(ms),
    dispose,
  };
});
