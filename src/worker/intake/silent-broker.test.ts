import { describe, expect, it } from 'vitest';
import { toBytes } from '../../task/json.ts';
import { EMBED } from '../../task/signature.ts';
import type { Envelope } from '../../task/envelope.ts';
import { makeEnvelope } from '../../../test/conformance/envelopes.ts';
import { queueWorker } from '../../../test/support/queue-worker.ts';
import { outlastError } from '../../errors/error.ts';
import type { Delivery } from '../../broker/broker.ts';
import { gate } from '../../../test/support/database.ts';

const LINK = `{"callbacks":[{"task":"next","options":{"queue":"elsewhere"}}],"errbacks":null,"chain":null,"chord":null}`;

const AWAY = { message: 'it is away', hint: 'Wait.', fields: {} };

const messages = (count: number, embed = EMBED, options = '{}'): readonly Envelope[] =>
  Array.from({ length: count }, () =>
    makeEnvelope({ queue: 'q', embed, options: toBytes(options) }),
  );

function setup() {
  const kit = queueWorker();
  kit.beSilent(true);
  return { ...kit, done: () => kit.inState('done').length };
}

describe('while the broker confirms nothing', () => {
  it('tasks with follow-ups are done, and so are the tasks behind them', async () => {
    const { time, ledger, arrive, done, runs } = setup();
    await arrive([...messages(100, LINK), ...messages(200)]);
    await time.runUntil(10_000);
    expect(done()).toBe(300);
    expect(runs()).toBe(0);
    // Stored with the commits, for a resurrector.
    expect(ledger.state.after.size).toBe(100);
  });

  it('the worker reports how long follow-ups have been unsent, until they are sent', async () => {
    const { time, arrive, status, beSilent } = setup();
    expect(status().unsentMs).toBeNull();
    await arrive(messages(5, LINK));
    await time.runUntil(10_000);
    expect(status().unsentMs).toBeGreaterThan(5_000);
    beSilent(false);
    await time.runUntil(70_000);
    await arrive(messages(5, LINK));
    await time.runUntil(80_000);
    expect(status().unsentMs).toBeNull();
  });

  it('a destination gets only probes once its silence was noticed', async () => {
    const { time, published, arrive } = setup();
    await arrive(messages(50, LINK));
    await time.runUntil(10_000);
    const before = published.length;
    for (let second = 0; second < 20; second++) {
      await arrive(messages(20, LINK));
      await time.runUntil(time.nowMs + 1_000);
    }
    expect(published.length - before).toBeLessThan(10);
  });

  it('tasks whose senders wait for a reply run', async () => {
    const { time, done, arrive } = setup();
    await arrive(messages(100, EMBED, '{"replyTo":"r"}'));
    await time.runUntil(20_000);
    expect(done()).toBe(100);
  });

  it('a worker drains in time, and its unsent follow-ups stay in the ledger', async () => {
    const { time, ledger, done, arrive, stop, running } = setup();
    await arrive(messages(10, LINK));
    await time.runUntil(1_000);
    expect(done()).toBe(10);
    stop.abort();
    await time.runUntil(20_000);
    await running;
    expect(ledger.state.after.size).toBe(10);
  });
});

it('a worker sends follow-ups at once when the broker confirms, and deletes them from the ledger', async () => {
  const { time, ledger, published, arrive, beSilent } = setup();
  beSilent(false);
  await arrive(messages(50, LINK));
  await time.runUntil(5_000);
  expect([published.length, ledger.state.after.size]).toEqual([50, 0]);
});

describe('while the broker delivers no messages', () => {
  const parked = (count: number) =>
    messages(count).map(envelope => ({ envelope, delayMs: null }) as const);

  it('because it does not answer, tasks in the ledger run, and messages that it delivers late as well', async () => {
    const { time, ledger, arrive, done, takeBy, takeNow } = setup();
    const late = gate<readonly Delivery[]>();
    takeBy(() => late.opened);
    await ledger.park(parked(20));
    await time.runUntil(10_000);
    expect(done()).toBe(20);
    await arrive(messages(2));
    late.open(await takeNow(2));
    takeBy(null);
    await time.runUntil(12_000);
    expect(done()).toBe(22);
  });

  it('because it is unreachable, tasks in the ledger run, and the broker is retried with growing delays', async () => {
    const { time, ledger, arrive, done, takeBy } = setup();
    let asked = 0;
    takeBy(() => {
      asked += 1;
      return Promise.reject(outlastError('ERR_STORE_UNAVAILABLE', AWAY));
    });
    await ledger.park(parked(20));
    await time.runUntil(60_000);
    expect(done()).toBe(20);
    expect(asked).toBeLessThan(40);
    await arrive(messages(5));
    takeBy(null);
    await time.runUntil(70_000);
    expect(done()).toBe(25);
  });
});
