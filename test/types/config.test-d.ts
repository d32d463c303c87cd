/** What the compiler knows about a config. Compiled by `tsc`, never run. */
import { defineConfig } from '../../src/config/config.ts';
import { optionsFromText } from '../../src/config/from-env.ts';
import type { RelayOptions } from '../../src/config/relay-options.ts';

const text: string | undefined = undefined;

defineConfig({});
defineConfig({
  database: text,
  tasks: ['./src/handlers/*'],
  relay: { batchSize: 500, idleTime: '1s', staleTimeoutSeconds: 300, jitter: 'full' },
  worker: { queues: { billing: 3, default: 1 }, lease: '5s', beat: undefined },
  on: { 'task:dead-lettered': event => event.reason.trim() },
});
defineConfig({
  // @ts-expect-error -- no such key
  databse: 'pglite:./x',
});
defineConfig({ broker: 'amqp://localhost', ledger: 'redis://localhost' });
defineConfig({ broker: { url: 'amqp://localhost', queueType: 'quorum', ackOn: 'begin' } });
defineConfig({
  broker: {
    url: 'amqp://localhost',
    // @ts-expect-error -- no such type of queue
    queueType: 'mirrored',
  },
});
defineConfig({
  relay: {
    // @ts-expect-error -- a number where a duration is due
    idleTime: 1_000,
  },
});
defineConfig({
  relay: {
    // @ts-expect-error -- a duration where the unit is in the name
    staleTimeoutSeconds: '300s',
  },
});
defineConfig({
  worker: {
    // @ts-expect-error -- no such option
    concurency: 5,
  },
});
defineConfig({
  on: {
    // @ts-expect-error -- no such event
    'task:finished': () => undefined,
  },
});

export const relay: RelayOptions = optionsFromText('relay', { batchSize: '5' });
// @ts-expect-error -- no such stage
optionsFromText('broker', {});
