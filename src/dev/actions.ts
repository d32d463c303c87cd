import { retryLetter } from '../admin/dead-letters.ts';
import type { Stores } from '../context/stores.ts';
import type { Body } from './exchange.ts';
import { findBusyChild, type SnapshotSource } from './read-snapshot.ts';
import { GOODS } from './shop/goods.ts';
import type { NewOrder, Shop } from './shop/shop.ts';

/** The response to a button: what happened, or why it could not. */
export interface Answer {
  readonly status: 200 | 400 | 404 | 409 | 500;
  readonly message: string;
  readonly [field: string]: unknown;
}

export interface ActionDeps {
  readonly source: SnapshotSource;
  readonly stores: Stores;
}

/** An order, committed or rolled back with its task. */
export async function placeOrder(shop: Shop, body: Body): Promise<Answer> {
  const order = readOrder(body);
  if (typeof order === 'string') return { status: 400, message: order };
  if (body['rollBack'] !== true) {
    const placed = await shop.placeOrder(order);
    const message = `Order ${placed.orderId} is committed, and its task with it.`;
    return { status: 200, message, ...placed };
  }
  const rolled = await shop.placeAndRollBack(order);
  if (rolled.left > 0) {
    return {
      status: 500,
      message: 'Something outlasted the rollback. Please report this.',
      ...rolled,
    };
  }
  return { status: 200, message: 'Rolled back: no order, no task.', ...rolled };
}

function readOrder(body: Body): NewOrder | string {
  const { customer, item, card = 'valid' } = body;
  const good = GOODS.find(known => known.item === item);
  if (!good) return `item is one of ${GOODS.map(known => known.item).join(', ')}`;
  if (card !== 'valid' && card !== 'declined') return 'card is valid or declined';
  const name = typeof customer === 'string' ? customer.trim() : '';
  // PostgreSQL's text type accepts neither NUL nor a lone surrogate.
  if (!/^[^\p{Control}\p{Surrogate}]{1,60}$/u.test(name))
    return 'Give a name of 1 to 60 characters.';
  return { customer: name, good, card };
}

/** SIGKILL to a worker process of ours: the one named, or the one that runs the newest task. */
export async function killWorker({ source }: ActionDeps, body: Body): Promise<Answer> {
  const { pid } = body;
  if (pid !== undefined) {
    const named = source.children().find(child => child.pid === pid);
    if (!named) return { status: 404, message: 'That worker process is gone already.' };
    named.kill();
    return { status: 200, message: `Worker ${named.pid} was killed.`, pid: named.pid };
  }
  const busy = await findBusyChild(source);
  if (!busy) return { status: 409, message: 'No worker is running a task right now.' };
  busy.kill();
  const message = `Worker ${busy.pid} was killed in the middle of a task.`;
  return { status: 200, message, pid: busy.pid };
}

/** Brings a dead letter back, once per death. */
export async function retryTask({ source, stores }: ActionDeps, body: Body): Promise<Answer> {
  const { id, version } = body;
  if (typeof id !== 'string' || typeof version !== 'number') {
    return { status: 400, message: 'Give the id and the version of a dead letter.' };
  }
  await source.shop?.fixCard(id);
  const status = await retryLetter(stores, id, version);
  switch (status) {
    case 'ok':
      return { status: 200, message: 'It runs again.', id };
    case 'absent':
      return { status: 404, message: 'There is no such task.', id };
    case 'conflict':
      return { status: 409, message: 'It is not dead any more.', id };
    case 'expired':
      return { status: 409, message: 'Its time is over, so it could not run.', id };
    case 'incomplete':
      return { status: 409, message: 'It was too large, and only its first bytes were kept.', id };
  }
}
