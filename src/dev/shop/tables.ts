import type { SqlDatabase } from '../../adapters/sql/sql-database.ts';

/**
 * Receipts have no unique order on purpose: it is the effect-once door, not this table, that ensures one
 * per order, however often its worker dies.
 */
const TABLES = [
  `create table if not exists shop_order (
    id bigint generated always as identity primary key,
    customer text not null,
    item text not null,
    cents integer not null,
    card text not null check (card in ('valid', 'declined')),
    created_at timestamptz not null default clock_timestamp()
  )`,
  `create table if not exists shop_receipt (
    id bigint generated always as identity primary key,
    order_id bigint not null references shop_order (id),
    task_id text not null,
    epoch bigint not null,
    created_at timestamptz not null default clock_timestamp()
  )`,
  'create index if not exists shop_receipt_order on shop_receipt (order_id)',
];

/** Creates the tables of the sample shop if they are missing. */
export async function createShopTables(db: SqlDatabase): Promise<void> {
  for (const statement of TABLES) await db.query(statement);
}
