import type { Broker, Delivery } from '../broker/broker.ts';
import { undecodable } from '../ledger/undecodable.ts';
import type { BuryItem, Ledger, MessageAnswer, TaskRef } from '../ledger/ledger.ts';
import type { Runtime } from '../runtime/runtime.ts';
import type { Envelope } from '../task/envelope.ts';
import type { RunObserver } from './run-observer.ts';

interface DeliveryDeps {
  readonly ledger: Ledger;
  readonly broker: Broker;
  readonly runtime: Runtime;
  readonly observer?: RunObserver;
}

/** A message that can be begun. */
export interface Beginnable {
  readonly delivery: Delivery;
  readonly envelope: Envelope;
}

/**
 * Sorts what the broker gave: what cannot be read is buried, what is not due is parked, and both are acknowledged
 * because the ledger has them then. The rest can be begun.
 */
export async function acceptDeliveries(
  deliveries: readonly Delivery[],
  deps: DeliveryDeps,
): Promise<readonly Beginnable[]> {
  const beginnable: Beginnable[] = [];
  const settled: Delivery[] = [];
  for (const delivery of deliveries) {
    const { message } = delivery;
    if ('raw' in message) {
      await deps.ledger.bury([undecodable(message)]);
      settled.push(delivery);
    } else if (message.etaMs !== null && message.etaMs > deps.runtime.clock.now()) {
      await deps.ledger.park([
        { envelope: message, delayMs: message.etaMs - deps.runtime.clock.now() },
      ]);
      deps.observer?.parked(message);
      settled.push(delivery);
    } else {
      beginnable.push({ delivery, envelope: message });
    }
  }
  if (settled.length > 0) await deps.broker.ack(settled);
  return beginnable;
}

/** What was given to `begin`, and its answers. */
export interface Begun {
  readonly given: readonly Beginnable[];
  readonly answers: readonly MessageAnswer[];
  /** The ledger was given the tags, and has let go of what it has. */
  readonly isAcknowledged: boolean;
}

/**
 * Acknowledges what the ledger has already; the deliveries of begun tasks wait for their run to be settled. A ledger that
 * acknowledges has answered for both: only what must be buried first is left to be told.
 */
export async function answerDeliveries(
  { given, answers, isAcknowledged }: Begun,
  deps: DeliveryDeps,
): Promise<ReadonlyMap<string, Delivery>> {
  const begun = new Map<string, Delivery>();
  let settled: Delivery[] = [];
  for (const [index, { delivery, envelope }] of given.entries()) {
    switch (answers[index]) {
      case 'begun':
        // A second copy in the same batch: the first one's run answers for the task.
        if (begun.has(envelope.id)) settled.push(delivery);
        else begun.set(envelope.id, delivery);
        break;
      case 'conflict':
        if (await isBuried(envelope, deps)) settled.push(delivery);
        else await deps.broker.giveBack([delivery]).catch(() => undefined);
        break;
      // Waiting, running, done or ended: from `begin` on the ledger alone brings a task back.
      case 'held':
        deps.observer?.held(envelope);
        settled.push(delivery);
        break;
      case 'expired':
        tellExpired([envelope], deps);
        settled.push(delivery);
        break;
      case 'done':
        settled.push(delivery);
        break;
      case undefined:
        await deps.broker.giveBack([delivery]);
    }
  }
  if (isAcknowledged) {
    const isConflict = (at: number): boolean => answers[at] === 'conflict';
    deps.broker.forget?.(given.filter((_, at) => !isConflict(at)).map(({ delivery }) => delivery));
    const buried = new Set(given.filter((_, at) => isConflict(at)).map(({ delivery }) => delivery));
    settled = settled.filter(delivery => buried.has(delivery));
    begun.clear();
  }
  // What was begun must start whatever becomes of the copies: an ack that fails brings them back, to be acked then.
  if (settled.length > 0) await deps.broker.ack(settled).catch(() => undefined);
  return begun;
}

/** Too late to be begun. */
export function tellExpired(tasks: readonly TaskRef[], deps: DeliveryDeps): void {
  for (const { id, name, queue } of tasks) {
    deps.runtime.emit('task:expired', { id, name, queue });
    deps.observer?.expired({ id, name, queue });
  }
}

async function isBuried(envelope: Envelope, deps: DeliveryDeps): Promise<boolean> {
  try {
    await deps.ledger.bury([impostor(envelope)]);
    return true;
  } catch (error) {
    deps.runtime.log.warn(
      { error, task: envelope.id },
      'an impostor could not be buried; it is given back',
    );
    return false;
  }
}

/** Same id, other bytes: kept under id and digest, so that it neither runs nor vanishes. */
function impostor(envelope: Envelope): BuryItem {
  const error = {
    type: 'ERR_DIGEST',
    message: `another task has the id ${envelope.id} with other bytes`,
    traceback: '',
  };
  return {
    kind: 'message',
    envelope: { ...envelope, id: `${envelope.id}#${envelope.digest.slice(0, 16)}` },
    reason: 'ERR_DIGEST',
    error,
  };
}
