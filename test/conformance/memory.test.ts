import { MemoryAdmissionStore } from '../../src/testing/memory/memory-admission-store.ts';
import { ledgerBroker, MemoryBroker } from '../../src/testing/memory/memory-broker.ts';
import type { MemoryBrokerConnection } from '../../src/testing/memory/memory-broker.ts';
import { MemoryCheckpointStore } from '../../src/testing/memory/memory-checkpoint-store.ts';
import { MemoryControlStore } from '../../src/testing/memory/memory-control-store.ts';
import { MemoryEffects } from '../../src/testing/memory/memory-effects.ts';
import { MemoryGenerationStore } from '../support/memory-generation-store.ts';
import { MemoryIdempotencyStore } from '../../src/testing/memory/memory-idempotency-store.ts';
import { MemoryLedger } from '../../src/testing/memory/memory-ledger.ts';
import { MemoryScheduleStore } from '../../src/testing/memory/memory-schedule-store.ts';
import { MemoryOutboxWriter } from '../../src/testing/memory/memory-outbox-writer.ts';
import { describeScheduleStore } from './schedule-store.ts';
import { MemoryOutboxStore } from '../../src/testing/memory/memory-outbox-store.ts';
import { MemoryLedgerReads } from '../../src/testing/memory/memory-ledger-reads.ts';
import { MemoryOutboxReads } from '../../src/testing/memory/memory-outbox-reads.ts';
import { MemoryResultStore } from '../../src/testing/memory/memory-result-store.ts';
import { composeReads } from '../../src/admin/compose-reads.ts';
import { describeAdmission } from './admission.ts';
import { makeLedger, stoppedClock } from '../support/memory-ledger.ts';
import { describeBroker, describeLedgerBroker } from './broker.ts';
import { describeCheckpointStore } from './checkpoint-store.ts';
import { describeControlStore } from './control-store.ts';
import { describeEffectDoor } from './effect-door.ts';
import { ledgerModel } from './ledger-driver.ts';
import { describeIdempotencyProperty } from '../property/idempotency-property.ts';
import { describeIdempotency } from './idempotency.ts';
import { describeGenerationStore } from './generation-store.ts';
import { describeLedger } from './ledger.ts';
import { describeLedgerReads } from './ledger-reads.ts';
import { describeTallies } from './ledger-tallies.ts';
import { describeOutboxOrdering } from './outbox-ordering.ts';
import { describeOutboxReceipts } from './outbox-receipts.ts';
import { describeOutboxReads, type OutboxReadsFixture } from './outbox-reads.ts';
import { describeOutboxStore, type OutboxFixture } from './outbox-store.ts';
import { describeStraightSend } from './straight-send.ts';
import { describeResultStore, type ResultFixture } from './result-store.ts';

const dispose = async (): Promise<void> => undefined;

async function makeOutbox(
  isOneDatabase: boolean,
): Promise<OutboxFixture & ResultFixture & OutboxReadsFixture> {
  const clock = stoppedClock();
  const ledger = new MemoryLedger({ clock });
  const store = new MemoryOutboxStore(isOneDatabase ? { clock, ledger } : { clock });
  const reads = new MemoryOutboxReads(store);
  return {
    store,
    reads,
    ledger,
    results: new MemoryResultStore(ledger, store),
    readModel: composeReads(reads, new MemoryLedgerReads(ledger), new MemoryControlStore(clock)),
    write: async envelopes => {
      const tx = store.begin();
      store.write(tx, envelopes);
      tx.commit();
    },
    writeRolledBack: async envelopes => {
      const tx = store.begin();
      store.write(tx, envelopes);
      tx.rollback();
    },
    writeRow: async ({ envelope, ...extras }) => {
      const tx = store.begin();
      store.write(tx, [envelope], extras);
      tx.commit();
    },
    countRows: async taskIds =>
      [...store.rows.values()].filter(row => taskIds.includes(row.envelope.id)).length,
    nowMs: async () => clock.now(),
    advance: ms => clock.advance(ms),
    dispose,
  };
}

const controlClock = stoppedClock();
const control = new MemoryControlStore(controlClock);
describeControlStore('memory', () => ({ control, advance: ms => controlClock.advance(ms) }));

const checkpoints = new MemoryCheckpointStore({ now: Date.now });
describeCheckpointStore('memory', () => checkpoints);

const makeKeys = async () => {
  const clock = stoppedClock();
  const store = new MemoryIdempotencyStore(clock);
  return { store, advance: (ms: number) => clock.advance(ms), dispose };
};
describeIdempotency('memory', makeKeys);
describeIdempotencyProperty('memory', makeKeys, { numRuns: 1_000, maxCommands: 40 });

const generations = new MemoryGenerationStore();

describeLedger('memory', makeLedger);
describeGenerationStore('memory', () => generations);
describeOutboxReads('memory', () => makeOutbox(false));
describeLedgerReads('memory', makeLedger);
describeTallies('memory', makeLedger);
describeOutboxStore('memory, separate broker', () => makeOutbox(false));
describeOutboxStore('memory, single database', () => makeOutbox(true));
describeOutboxReceipts('memory, separate broker', () => makeOutbox(false));
describeOutboxOrdering('memory, separate broker', () => makeOutbox(false));
describeOutboxOrdering('memory, single database', () => makeOutbox(true));
describeAdmission(
  'memory',
  async () => {
    const clock = stoppedClock();
    const ledger = new MemoryLedger({ clock });
    return {
      ledger,
      results: new MemoryResultStore(ledger),
      readModel: ledgerModel(new MemoryLedgerReads(ledger)),
      store: new MemoryAdmissionStore({ clock, ledger }),
      advance: ms => clock.advance(ms),
      dispose,
    };
  },
  300,
);
describeResultStore('memory', () => makeOutbox(true));

describeStraightSend('memory', async () => {
  const fixture = await makeOutbox(true);
  const [store, ledger] = [fixture.store as MemoryOutboxStore, fixture.ledger as MemoryLedger];
  const writer = new MemoryOutboxWriter(store, ledger);
  return {
    ...fixture,
    ledger,
    send: async (tasks, isRolledBack = false) => {
      const tx = store.begin();
      const answers = await writer.write(tx, tasks);
      if (isRolledBack) tx.rollback();
      else tx.commit();
      return answers;
    },
  };
});

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
    readModel: ledgerModel(new MemoryLedgerReads(ledger)),
    door: new MemoryEffects(ledger),
    write: async (tx, key) => tx.write(() => rows.push(key)),
    count: async key => rows.filter(row => row === key).length,
    canInterleave: true,
    advance: ms => clock.advance(ms),
    dispose,
  };
});

const scheduleClock = { now: () => Date.now() };
const scheduleOutbox = new MemoryOutboxStore({ clock: scheduleClock });
const schedules = new MemoryScheduleStore({
  clock: scheduleClock,
  writer: new MemoryOutboxWriter(scheduleOutbox),
});
describeScheduleStore('memory', () => ({
  store: schedules.through(),
  rows: async id =>
    [...scheduleOutbox.rows.values()].filter(({ envelope }) => envelope.id === id).length,
}));
