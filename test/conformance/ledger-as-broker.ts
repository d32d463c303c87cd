import type { Broker, Delivery, PublishOutcome } from '../../src/broker/broker.ts';
import type { RunRef } from '../../src/ledger/ledger.ts';
import type { Envelope } from '../../src/task/envelope.ts';
import type { BrokerFixture, LedgerBrokerFixture } from './broker.ts';
import { HOUR, unique } from './envelopes.ts';

/**
 * A broker in the ledger's database, through the steps that stand for those of a separate broker: `begin` takes, the
 * end of a run acknowledges, `release` gives back, and an ended lease is a lost connection.
 */
class LedgerConsumer implements Broker {
  readonly worker: string = unique('worker');
  readonly #parts: LedgerBrokerFixture;

  constructor(parts: LedgerBrokerFixture) {
    this.#parts = parts;
  }

  async open(): Promise<this> {
    const { worker } = this;
    const process = unique('process');
    await this.#parts.ledger.open({ worker, process, host: 'host-1', pid: 1, leaseMs: HOUR });
    return this;
  }

  publish(messages: readonly Envelope[]): Promise<readonly PublishOutcome[]> {
    return this.#parts.broker.publish(messages);
  }

  async take(queues: readonly string[], limit: number): Promise<readonly Delivery[]> {
    const reply = await this.#parts.ledger.begin({
      worker: this.worker,
      run: unique('run'),
      queues,
      limit,
      suspects: limit,
      messages: [],
      crashBudgets: { '*': 5 },
    });
    if (reply.status !== 'open') return [];
    return reply.begun.map(({ id, epoch, run, envelope }) => ({
      tag: JSON.stringify({ id, epoch, run }),
      message: envelope,
    }));
  }

  async ack(deliveries: readonly Delivery[]): Promise<void> {
    const outcome = { kind: 'done', result: null } as const;
    const ending = { outcome, after: [], dedupMs: HOUR, resultMs: HOUR };
    await this.#parts.ledger.commit(refsOf(deliveries).map(ref => ({ ref, ...ending })));
  }

  async giveBack(deliveries: readonly Delivery[]): Promise<void> {
    await this.#parts.ledger.release(refsOf(deliveries));
  }

  onReady(): () => void {
    return () => undefined;
  }

  async die(): Promise<void> {
    await this.#parts.ledger.condemn({ kind: 'worker', worker: this.worker });
    await this.#parts.ledger.reap(1_000);
  }

  close(): Promise<void> {
    return Promise.resolve();
  }
}

const refsOf = (deliveries: readonly Delivery[]): readonly RunRef[] =>
  deliveries.map(({ tag }) => JSON.parse(tag) as RunRef);

/** Runs the suite for separate brokers on it. */
export async function ledgerAsBroker(
  makeParts: () => Promise<LedgerBrokerFixture>,
): Promise<BrokerFixture> {
  const parts = await makeParts();
  return {
    connect: () => new LedgerConsumer(parts).open(),
    disconnect: broker => (broker as LedgerConsumer).die(),
    dispose: () => parts.dispose(),
  };
}
