import type { ReadModel } from '../../admin/read-model.ts';
import type { SqlDatabase } from '../../adapters/sql/sql-database.ts';
import type { SqlTransaction } from '../../adapters/sql/sql-transaction.ts';
import type { Outlast } from '../../index.ts';
import { createOutlastOn } from '../../app/create-outlast.ts';
import type { Context } from '../../context/context.ts';
import type { Stores } from '../../context/stores.ts';
import { receiptTaskId, sendReceipt } from './contract.ts';
import { GOODS, priceOf, type Good } from './goods.ts';
import { createShopTables } from './tables.ts';

export interface NewOrder {
  readonly customer: string;
  readonly good: Good;
  readonly card: 'valid' | 'declined';
}

export interface PlacedOrder {
  readonly orderId: string;
  readonly taskId: string;
}

/** What the page shows of a task that belongs to an order. */
export interface OrderView {
  readonly title: string;
  readonly receipts: number;
}

/** Ends a transaction that was never meant to commit. */
class RollBack extends Error {}

/** The sample shop: an application as its users would write one, on the database of `outlast dev`. */
export class Shop {
  readonly #outlast: Outlast;
  readonly #db: SqlDatabase;
  readonly #reads: Pick<ReadModel, 'inspect'>;

  private constructor(outlast: Outlast, { db, reads }: Pick<Stores, 'db' | 'reads'>) {
    this.#outlast = outlast;
    this.#db = db;
    this.#reads = reads;
  }

  static async open(context: Context): Promise<Shop> {
    const stores = await context.stores();
    await createShopTables(stores.db);
    return new Shop(createOutlastOn(context), stores);
  }

  /** The order and its task, in one transaction: both or neither. */
  async placeOrder(order: NewOrder): Promise<PlacedOrder> {
    return await this.#outlast.transaction(tx => this.#writeOrder(tx, order));
  }

  /** The same, but something goes wrong before COMMIT. Checks afterwards what is left: nothing. */
  async placeAndRollBack(order: NewOrder): Promise<PlacedOrder & { readonly left: number }> {
    let placed: PlacedOrder | undefined;
    try {
      await this.#outlast.transaction(async tx => {
        placed = await this.#writeOrder(tx, order);
        throw new RollBack();
      });
    } catch (error) {
      if (!(error instanceof RollBack)) throw error;
    }
    const { orderId, taskId } = placed as PlacedOrder;
    return { orderId, taskId, left: await this.#countTraces(orderId, taskId) };
  }

  /** What an operator does before a retry: removes the cause. */
  async fixCard(taskId: string): Promise<void> {
    await this.#outlast.transaction(async tx => {
      await tx.query(`update shop_order set card = 'valid' where 'receipt-' || id = $1::text`, [
        taskId,
      ]);
    });
  }

  /** Orders by the id of their task. */
  async describe(taskIds: readonly string[]): Promise<ReadonlyMap<string, OrderView>> {
    const rows = await this.#db.query(
      `select 'receipt-' || o.id as task_id, o.id::text as id, o.customer, o.item, o.cents,
         (select count(*) from shop_receipt r where r.order_id = o.id)::text as receipts
       from unnest($1::text[]) as t(id) join shop_order o on o.id = substring(t.id from '^receipt-(\\d{1,15})$')::bigint`,
      [taskIds],
    );
    return new Map(
      rows.map(row => {
        const { id, customer, item, cents } = row as Record<string, string> & { cents: number };
        const label = GOODS.find(good => good.item === item)?.label ?? item;
        const title = `Order ${id}: ${label} for ${customer}, ${priceOf(cents)}`;
        return [row['task_id'] as string, { title, receipts: Number(row['receipts']) }];
      }),
    );
  }

  async #writeOrder(tx: SqlTransaction, order: NewOrder): Promise<PlacedOrder> {
    const { customer, good, card } = order;
    const [row] = await tx.query(
      `insert into shop_order (customer, item, cents, card)
       values ($1::text, $2::text, $3::text::integer, $4::text) returning id::text as id`,
      [customer, good.item, String(good.cents), card],
    );
    const orderId = row?.['id'] as string;
    const id = receiptTaskId(orderId);
    const handle = await this.#outlast.send(tx, sendReceipt, { orderId }, { id });
    return { orderId, taskId: handle.id };
  }

  async #countTraces(orderId: string, taskId: string): Promise<number> {
    const [row] = await this.#db.query(
      'select count(*) as orders from shop_order where id = $1::text::bigint',
      [orderId],
    );
    const task = await this.#reads.inspect(taskId);
    return Number(row?.['orders']) + (task === null ? 0 : 1);
  }
}
