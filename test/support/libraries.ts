import { EntitySchema as MikroSchema } from '@mikro-orm/core';
import { MikroORM as MikroMariadb } from '@mikro-orm/mariadb';
import { MikroORM as MikroPostgres } from '@mikro-orm/postgresql';
import { PrismaMariaDb } from '@prisma/adapter-mariadb';
import { PrismaPg } from '@prisma/adapter-pg';
import { sql } from 'drizzle-orm';
import { mysqlTable, varchar } from 'drizzle-orm/mysql-core';
import { drizzle as drizzleMysql2 } from 'drizzle-orm/mysql2';
import { drizzle as drizzlePg } from 'drizzle-orm/node-postgres';
import { pgTable, text } from 'drizzle-orm/pg-core';
import { drizzle as drizzlePostgresJs } from 'drizzle-orm/postgres-js';
import createKnex from 'knex';
import { CamelCasePlugin, CompiledQuery, Kysely, MysqlDialect, PostgresDialect } from 'kysely';
import { createPool as createCallbackPool } from 'mysql2';
import { createPool as createMysql2Pool } from 'mysql2/promise';
import { Pool } from 'pg';
import postgres from 'postgres';
import { DataTypes, Sequelize } from 'sequelize';
import { DataSource, EntitySchema } from 'typeorm';
import { fromDrizzle } from '../../src/adapters/transactions/drizzle.ts';
import { fromKnex } from '../../src/adapters/transactions/knex.ts';
import { fromKysely } from '../../src/adapters/transactions/kysely.ts';
import { fromMikroOrm } from '../../src/adapters/transactions/mikro-orm.ts';
import { fromPg } from '../../src/adapters/transactions/pg.ts';
import { fromPostgresJs } from '../../src/adapters/transactions/postgres-js.ts';
import { fromPrisma } from '../../src/adapters/transactions/prisma.ts';
import { fromSequelize } from '../../src/adapters/transactions/sequelize.ts';
import { fromTypeOrm } from '../../src/adapters/transactions/typeorm.ts';
import type { OpenLibrary } from '../conformance/transaction-adapter.ts';
import { DRIVERS } from './mysql-drivers.ts';
import { PrismaClient as PrismaMysql } from './prisma/mysql/generated/client.ts';
import { PrismaClient as PrismaPostgres } from './prisma/postgres/generated/client.ts';

type Open = (url: string) => Promise<OpenLibrary<never>>;
const library = <Tx>(made: OpenLibrary<Tx>): OpenLibrary<never> =>
  made as unknown as OpenLibrary<never>;
const SIZE = 4;

interface Orders {
  readonly orders: { readonly id: string };
}

function kysely(db: Kysely<Orders>, dialect: 'postgres' | 'mysql'): OpenLibrary<never> {
  return library({
    adapter: fromKysely(db, { dialect }),
    transaction: fn => db.transaction().execute(fn),
    insert: (tx, id) => tx.insertInto('orders').values({ id }).execute(),
    run: (tx, statement) => tx.executeQuery(CompiledQuery.raw(statement)),
    wrongHandles: { db },
    close: () => db.destroy(),
  });
}

function knex(client: string, connection: string): OpenLibrary<never> {
  const db = createKnex({ client, connection, pool: { min: 0, max: SIZE } });
  const dialect = client === 'pg' ? 'postgres' : 'mysql';
  return library({
    adapter: fromKnex(db, { dialect }),
    transaction: fn => db.transaction(fn),
    insert: async (tx, id) => await tx('orders').insert({ id }),
    run: async (tx, statement): Promise<unknown> => (await tx.raw(statement)) as unknown,
    wrongHandles: { knex: db },
    close: () => db.destroy(),
  });
}

async function typeOrm(url: string, type: 'postgres' | 'mariadb'): Promise<OpenLibrary<never>> {
  const Order = new EntitySchema<{ id: string }>({
    name: 'orders',
    columns: { id: { type: 'varchar', length: 64, primary: true } },
  });
  const source = await new DataSource({ type, url, entities: [Order] }).initialize();
  const idle = source.createQueryRunner();
  return library({
    adapter: fromTypeOrm(source),
    transaction: fn => source.transaction(fn),
    insert: (tx, id) => tx.insert(Order, { id }),
    run: (tx, statement) => tx.query(statement),
    wrongHandles: { manager: source.manager, 'a runner before startTransaction': idle.manager },
    close: async () => {
      await idle.release();
      await source.destroy();
    },
  });
}

async function sequelize(url: string): Promise<OpenLibrary<never>> {
  const db = new Sequelize(url, { logging: false, pool: { max: SIZE } });
  const Order = db.define(
    'order',
    { id: { type: DataTypes.STRING, primaryKey: true } },
    { tableName: 'orders', timestamps: false },
  );
  const rolledBack = await db.transaction();
  await rolledBack.rollback();
  return library({
    adapter: fromSequelize(db),
    transaction: fn => db.transaction(fn),
    insert: (tx, id) => Order.create({ id }, { transaction: tx }),
    run: (tx, statement) => db.query(statement, { transaction: tx }),
    wrongHandles: { sequelize: db, 'one that was rolled back by hand': rolledBack },
    close: () => db.close(),
  });
}

const MikroOrder = new MikroSchema<{ id: string }>({
  name: 'Order',
  tableName: 'orders',
  properties: { id: { type: 'string', primary: true } },
});

async function mikroOrm(url: string, dialect: 'postgres' | 'mysql'): Promise<OpenLibrary<never>> {
  const options = { clientUrl: url, entities: [MikroOrder], pool: { min: 0, max: SIZE } };
  const init =
    dialect === 'postgres' ? MikroPostgres : (MikroMariadb as unknown as typeof MikroPostgres);
  const orm = await init.init(options);
  return library({
    adapter: fromMikroOrm(orm, { dialect }),
    transaction: fn => orm.em.fork().transactional(fn),
    insert: async (tx, id) => {
      tx.persist(tx.create(MikroOrder, { id }));
      await tx.flush();
    },
    run: (tx, statement) => tx.execute(statement),
    wrongHandles: { em: orm.em, fork: orm.em.fork() },
    close: () => orm.close(),
  });
}

/** Each adapter on PostgreSQL, by the name of its library. */
export const ON_POSTGRES: Readonly<Record<string, Open>> = {
  pg: async url => {
    const pool = new Pool({ connectionString: url, max: SIZE });
    const adapter = fromPg(pool);
    return library({
      adapter,
      transaction: fn => adapter.transaction(fn),
      insert: (tx, id) => tx.query('insert into orders (id) values ($1)', [id]),
      run: (tx, statement) => tx.query(statement),
      wrongHandles: { pool },
      close: () => pool.end(),
    });
  },
  'postgres.js': async url => {
    const db = postgres(url, { max: SIZE, transform: postgres.camel, onnotice: () => undefined });
    return library({
      adapter: fromPostgresJs(db, { answerTimeout: '1s' }),
      transaction: fn => db.begin(fn) as Promise<never>,
      insert: async (tx, id) => await tx`insert into orders (id) values (${id})`,
      run: async (tx, statement) => await tx.unsafe(statement),
      wrongHandles: { sql: db },
      hangsAtRollback: true,
      close: () => db.end(),
    });
  },
  Kysely: async url => {
    const pool = new Pool({ connectionString: url, max: SIZE });
    const plugins = [new CamelCasePlugin()];
    return kysely(
      new Kysely<Orders>({ dialect: new PostgresDialect({ pool }), plugins }),
      'postgres',
    );
  },
  Drizzle: async url => {
    const pool = new Pool({ connectionString: url, max: SIZE });
    const db = drizzlePg(pool);
    const orders = pgTable('orders', { id: text('id').primaryKey() });
    return library({
      adapter: fromDrizzle(db, { dialect: 'postgres', sql }),
      transaction: fn => db.transaction(fn),
      insert: async (tx, id) => await tx.insert(orders).values({ id }),
      run: async (tx, statement) => await tx.execute(statement),
      wrongHandles: { db },
      close: () => pool.end(),
    });
  },
  'Drizzle on postgres.js': async url => {
    const client = postgres(url, { max: SIZE, onnotice: () => undefined });
    const db = drizzlePostgresJs(client);
    const orders = pgTable('orders', { id: text('id').primaryKey() });
    return library({
      // postgres.js never answers a statement that comes after the end of its transaction.
      adapter: fromDrizzle(db, { dialect: 'postgres', sql, answerTimeout: '1s' }),
      transaction: fn => db.transaction(fn),
      insert: async (tx, id) => await tx.insert(orders).values({ id }),
      run: async (tx, statement) => await tx.execute(statement),
      wrongHandles: { db },
      hangsAtRollback: true,
      close: () => client.end(),
    });
  },
  Prisma: async url => {
    const db = new PrismaPostgres({ adapter: new PrismaPg({ connectionString: url, max: SIZE }) });
    return library({
      adapter: fromPrisma(db, { dialect: 'postgres' }),
      transaction: fn => db.$transaction(fn),
      insert: async (tx, id) => await tx.ord.create({ data: { id } }),
      run: async (tx, statement) => await tx.$executeRawUnsafe(statement),
      wrongHandles: { prisma: db },
      close: () => db.$disconnect(),
    });
  },
  TypeORM: url => typeOrm(url, 'postgres'),
  Knex: async url => knex('pg', url),
  MikroORM: url => mikroOrm(url, 'postgres'),
  Sequelize: sequelize,
};

/** The same on MariaDB; postgres.js has no driver for it. */
export const ON_MARIADB: Readonly<Record<string, Open>> = {
  ...Object.fromEntries(
    Object.entries(DRIVERS).map(([name, open]): [string, Open] => [
      name,
      async url => {
        const driver = open(url, SIZE);
        return library({
          adapter: driver.adapter,
          transaction: fn => driver.adapter.transaction(fn),
          insert: (tx, id) => driver.run(tx, `insert into orders (id) values ('${id}')`),
          run: (tx, statement) => driver.run(tx, statement),
          wrongHandles: { pool: driver.pool },
          close: () => driver.close(),
        });
      },
    ]),
  ),
  Kysely: async url => {
    const pool = createCallbackPool({ uri: url, connectionLimit: SIZE });
    const plugins = [new CamelCasePlugin()];
    return kysely(new Kysely<Orders>({ dialect: new MysqlDialect({ pool }), plugins }), 'mysql');
  },
  Drizzle: async url => {
    const pool = createMysql2Pool({ uri: url, connectionLimit: SIZE });
    const db = drizzleMysql2(pool);
    const orders = mysqlTable('orders', { id: varchar('id', { length: 64 }).primaryKey() });
    return library({
      adapter: fromDrizzle(db, { dialect: 'mysql', sql }),
      transaction: fn => db.transaction(fn),
      insert: async (tx, id) => await tx.insert(orders).values({ id }),
      run: async (tx, statement) => await tx.execute(statement),
      wrongHandles: { db },
      close: () => pool.end(),
    });
  },
  Prisma: async url => {
    const { hostname, port, username, pathname } = new URL(url);
    const adapter = new PrismaMariaDb({
      host: hostname,
      port: Number(port),
      user: username,
      database: pathname.slice(1),
      connectionLimit: SIZE,
    });
    const db = new PrismaMysql({ adapter });
    return library({
      adapter: fromPrisma(db, { dialect: 'mysql' }),
      transaction: fn => db.$transaction(fn),
      insert: async (tx, id) => await tx.ord.create({ data: { id } }),
      run: async (tx, statement) => await tx.$executeRawUnsafe(statement),
      wrongHandles: { prisma: db },
      close: () => db.$disconnect(),
    });
  },
  TypeORM: url => typeOrm(url, 'mariadb'),
  Knex: async url => knex('mysql2', url),
  MikroORM: url => mikroOrm(url, 'mysql'),
  Sequelize: url => sequelize(url),
};
