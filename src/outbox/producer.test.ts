import { expect, it } from 'vitest';
import { VirtualTime } from '../testing/virtual-time.ts';
import { Admission } from '../admission/admission.ts';
import { LimitBook } from '../admission/limits.ts';
import { MemoryAdmissionStore } from '../testing/memory/memory-admission-store.ts';
import { MemoryLedger } from '../testing/memory/memory-ledger.ts';
import type { Broker } from '../broker/broker.ts';
import { noFaults, systemRandom } from '../runtime/runtime.ts';
import { task } from '../task/define-task.ts';
import { NO_KEYS } from '../task/keyring.ts';
import { noEvents } from '../telemetry/events.ts';
import { silentLogger } from '../telemetry/logger.ts';
import { Producer } from './producer.ts';

const unused = (): never => {
  throw new Error('a push needs no outbox');
};

it('a push fails in time when the broker confirms nothing', async () => {
  const time = new VirtualTime();
  const { clock } = time;
  const silent: Pick<Broker, 'publish'> = { publish: () => new Promise(() => undefined) };
  const book = new LimitBook([]);
  const log = silentLogger;
  const runtime = { clock, random: systemRandom, faultPoint: noFaults, log, emit: noEvents };
  const producer = new Producer({
    adapter: { status: unused, transaction: unused },
    writer: { write: unused, isInTransaction: unused, noteChords: unused },
    lenientWriter: null,
    sameDatabase: null,
    broker: () => Promise.resolve(silent as Broker),
    admission: () =>
      Promise.resolve(
        new Admission({
          store: new MemoryAdmissionStore({ clock, ledger: new MemoryLedger({ clock }) }),
          book,
          runtime,
        }),
      ),
    book,
    random: systemRandom,
    clock,
    log,
    strict: true,
    excludeTasks: [],
    maxPayloadBytes: 1_000,
    redact: null,
    keyring: NO_KEYS,
    chordQueue: null,
    notesChords: false,
    parent: () => null,
  });
  const pushing = producer.push({ task: task('shop.nightly'), input: undefined, options: {} });
  const answer = pushing.catch((error: unknown) => error);
  await time.runUntil(11_000);
  expect(await answer).toMatchObject({ code: 'ERR_BROKER_UNAVAILABLE' });
});
