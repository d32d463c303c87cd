import { sql } from 'drizzle-orm';
import { integer, pgTable, serial, text } from 'drizzle-orm/pg-core';

export const orders = pgTable('orders', { id: text().primaryKey(), cents: integer().notNull() });
export const payments = pgTable('payments', {
  id: serial().primaryKey(),
  orderId: text('order_id').notNull(),
});
export const ticks = pgTable('ticks', { slot: text().primaryKey() });

// Stands for the migrations of your own tool.
export async function makeTables(db) {
  await db.execute(sql`CREATE TABLE orders (id text PRIMARY KEY, cents int NOT NULL)`);
  await db.execute(sql`CREATE TABLE payments (id serial PRIMARY KEY, order_id text NOT NULL)`);
  await db.execute(sql`CREATE TABLE ticks (slot text PRIMARY KEY)`);
}
