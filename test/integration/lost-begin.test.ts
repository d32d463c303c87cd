import { expect, it, onTestFinished } from 'vitest';
import { outlastError } from '../../src/errors/error.ts';
import type { BeginRequest, Ledger } from '../../src/ledger/ledger.ts';
import { silentLogger } from '../../src/telemetry/logger.ts';
import { createRuntime } from '../../src/runtime/create-runtime.ts';
import { beginWithRetries, makeStorePace } from '../../src/worker/intake/begin-messages.ts';
import { makeEnvelopes, unique } from '../conformance/envelopes.ts';
import { LedgerDriver } from '../conformance/ledger-driver.ts';
import { makeLedger } from '../support/memory-ledger.ts';
import { openTestLedger } from '../support/redis-ledger.ts';
import { redisUrl } from '../support/servers.ts';

const LOST = outlastError('ERR_STORE_UNAVAILABLE', { message: 'lost', hint: '', fields: {} });

it.each([
  ['in memory', () => makeLedger()],
  ['on Redis', () => openTestLedger(redisUrl())],
])(
  'a begin whose reply was lost returns the same tasks when it is repeated, %s',
  async (_, open) => {
    const fixture = await open();
    onTestFinished(() => fixture.dispose());
    const driver = new LedgerDriver(fixture);
    const queue = unique('queue');
    const envelopes = makeEnvelopes(4, { queue });
    await driver.put(...envelopes);
    const { worker } = await driver.open();
    let asked = 0;
    const begin = async (request: BeginRequest): ReturnType<Ledger['begin']> => {
      const reply = await driver.ledger.begin(request);
      if (++asked === 1) throw LOST;
      return reply;
    };
    const ledger = Object.assign(Object.create(driver.ledger) as Ledger, { begin });
    const runtime = createRuntime(silentLogger, () => undefined);
    const { signal } = new AbortController();
    const limits = { signal, isOurs: () => true, pace: makeStorePace(runtime) };
    const request = driver.request(worker, { queues: [queue], limit: 2 });
    const reply = await beginWithRetries(request, { ledger, runtime }, limits);
    // Two were handed out, and the repeat returns these two, not two others.
    expect(reply).toMatchObject({ status: 'open' });
    const begun = reply !== null && 'begun' in reply ? reply.begun.map(({ id }) => id) : [];
    expect(begun).toHaveLength(2);
    const states = await Promise.all(envelopes.map(({ id }) => driver.state(id)));
    expect(states.filter(state => state === 'running')).toHaveLength(2);
  },
);
