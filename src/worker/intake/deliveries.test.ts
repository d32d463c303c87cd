import { expect, it } from 'vitest';
import { MemoryBroker } from '../../testing/memory/memory-broker.ts';
import { MemoryLedger } from '../../testing/memory/memory-ledger.ts';
import { noFaults, systemClock, systemRandom } from '../../runtime/runtime.ts';
import { noEvents } from '../../telemetry/events.ts';
import { silentLogger } from '../../telemetry/logger.ts';
import { toBytes } from '../../task/json.ts';
import { Keyring, NO_KEYS } from '../../task/keyring.ts';
import { HOUR, makeEnvelope, makeEnvelopes } from '../../../test/conformance/envelopes.ts';
import { acceptDeliveries } from './deliveries.ts';

const RUNTIME = {
  clock: systemClock,
  random: systemRandom,
  faultPoint: noFaults,
  log: silentLogger,
  emit: noEvents,
};

it('answers the caller of an unreadable message, unless any sender could have chosen the id', async () => {
  const store = new MemoryLedger({ clock: systemClock });
  const [stored, sent]: [unknown[], unknown[]] = [[], []];
  const ledger = {
    park: store.park.bind(store),
    bury: store.bury.bind(store),
    recordNeverSent: async (...told: unknown[]) => void stored.push(told),
  };
  const followUps = { send: (entries: readonly unknown[]) => void sent.push(...entries) };
  const accept = async (more: object, keyring = NO_KEYS): Promise<void> => {
    const asker = { id: 'asked', replyTo: 'callers', correlationId: 'c' };
    const message = {
      raw: toBytes('x'),
      queue: 'q',
      why: 'its content type is odd',
      asker,
      ...more,
    };
    const broker = new MemoryBroker().connect();
    await acceptDeliveries(
      [{ tag: '1', message }],
      { worker: 'w', runnable: {} },
      { ledger, broker, runtime: RUNTIME, redact: null, keyring, followUps },
    );
  };
  await accept({});
  const error = { type: 'ERR_UNDECODABLE', message: 'its content type is odd', traceback: '' };
  const [[ids, told, letter] = []] = stored as [string[], unknown, string][];
  expect([ids, told]).toEqual([['asked'], { status: 'FAILURE', error }]);
  expect(letter).toMatch(/^[0-9a-f]{64}$/);
  expect(sent).toMatchObject([{ reply: { replyTo: 'callers', correlationId: 'c' } }]);
  await accept({ reason: 'ERR_DIGEST' });
  await accept({ asker: undefined });
  await accept({}, new Keyring([{ id: 'k', secret: toBytes('x'.repeat(32)) }]));
  expect([stored.length, sent.length]).toEqual([1, 1]);
});

it('reports a task without a handler once, and not each of them', async () => {
  const said: unknown[] = [];
  const log = { ...silentLogger, warn: ({ task }: { task?: unknown }) => void said.push(task) };
  const store = new MemoryLedger({ clock: systemClock });
  const broker = new MemoryBroker().connect();
  const names = ['a', 'b', 'a', 'a', 'b'];
  await broker.publish(names.map(name => makeEnvelope({ queue: 'q', name })));
  const deps = { ledger: store, broker, runtime: { ...RUNTIME, log }, redact: null };
  for (let taken = 0; taken < names.length; taken++)
    await acceptDeliveries(await broker.take(['q'], 1), { worker: 'w', runnable: {} }, deps);
  expect(said).toEqual(['a', 'b']);
});

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
  const observer = { parked: ({ id }: { readonly id: string }) => void reported.push(id) };
  const { beginnable, parked } = await acceptDeliveries(
    await broker.take(['q'], 100),
    { worker: 'w', runnable: { 'conformance.task': 1 } },
    { ledger, broker, runtime: RUNTIME, redact: null, observer: observer as never },
  );
  expect([calls, parked, beginnable.length]).toEqual([1, 50, 1]);
  expect(reported).toEqual(early.map(({ id }) => id));
  expect(hub.count()).toEqual({ queued: 0, held: 1 });
});
