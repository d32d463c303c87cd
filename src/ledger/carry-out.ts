import type { Broker } from '../broker/broker.ts';
import type { AfterEntry, Ledger } from './ledger.ts';

/** Sends what a terminal step left to be sent, and strikes off what the broker confirmed. Twice does no harm: ids derive. */
export async function carryOut(
  entries: readonly AfterEntry[],
  broker: Broker,
  ledger: Pick<Ledger, 'after'>,
): Promise<void> {
  const outcomes = await broker.publish(entries.map(entry => entry.publish));
  const confirmed = entries.filter((_, index) => outcomes[index]?.status === 'confirmed');
  await ledger.after.strike(confirmed.map(entry => entry.key));
}
