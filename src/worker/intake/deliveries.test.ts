import { expect, it } from 'vitest';
import { MemoryBroker } from '../../../test/memory/memory-broker.ts';
import { MemoryLedger } from '../../../test/memory/memory-ledger.ts';
import { systemClock } from '../../runtime/clock.ts';
import { noFaults } from '../../runtime/fault-point.ts';
import { systemRandom } from '../../runtime/random.ts';
import { noEvents } from '../../telemetry/events.ts';
import { silentLogger } from '../../telemetry/logger.ts';
import { HOUR, makeEnvelope, makeEnvelopes } from '../../../test/conformance/envelopes.ts';
import { acceptDeliveries } from './deliveries.ts';

it('parks messages that are not due in the ledger with one call, and acknowledges them', async () => {
  const store = new MemoryLedger({ clock: systemClock });
  let calls = 0;
  const ledger = {
    park: async (...items: Parameters<typeof store.park>) => {
      calls += 1;
      await store.park(...items);
    },
    bury: store.bury.bind(store),
  };
  const [hub, reported] = [new MemoryBroker(), [] as string[]];
  const broker = hub.connect();
  const early = makeEnvelopes(50, { queue: 'q', etaMs: Date.now() + HOUR });
  await broker.publish([...early, makeEnvelope({ queue: 'q' })]);
  const runtime = {
    clock: systemClock,
    random: systemRandom,
    faultPoint: noFaults,
    log: silentLogger,
    emit: noEvents,
  };
  const observer = { parked: ({ id }: { readonly id: string }) => void reported.push(id) };
  const { beginnable, parked } = await acceptDeliveries(
    await broker.take(['q'], 100),
    { worker: 'w', runnable: { 'conformance.task': 1 } },
    { ledger, broker, runtime, redact: null, observer: observer as never },
  );
  expect([calls, parked, beginnable.length]).toEqual([1, 50, 1]);
  expect(reported).toEqual(early.map(({ id }) => id));
  expect(hub.count()).toEqual({ queued: 0, held: 1 });
});
