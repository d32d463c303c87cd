/** Which handles each adapter takes, by type, with the real types of its library. Checked by the compiler alone. */
import type { PGlite } from '@electric-sql/pglite';
import { sql } from 'drizzle-orm';
import { drizzle } from 'drizzle-orm/node-postgres';
import type { Knex } from 'knex';
import type { Kysely } from 'kysely';
import type { Pool as MariadbPool } from 'mariadb';
import type { Pool as MysqlPool } from 'mysql2/promise';
import type { Pool } from 'pg';
import type { Sql } from 'postgres';
import type { Sequelize } from 'sequelize';
import type { DataSource } from 'typeorm';
import type { MikroORM } from '@mikro-orm/postgresql';
import { createOutlast, task } from '../../src/index.ts';
import { fromDrizzle } from '../../src/adapters/transactions/drizzle.ts';
import { fromKnex } from '../../src/adapters/transactions/knex.ts';
import { fromKysely } from '../../src/adapters/transactions/kysely.ts';
import { fromMariadb } from '../../src/adapters/transactions/mariadb.ts';
import { fromMikroOrm } from '../../src/adapters/transactions/mikro-orm.ts';
import { fromMysql2 } from '../../src/adapters/transactions/mysql2.ts';
import { fromPg } from '../../src/adapters/transactions/pg.ts';
import { fromPGlite } from '../../src/adapters/transactions/pglite.ts';
import { fromPostgresJs } from '../../src/adapters/transactions/postgres-js.ts';
import { fromPrisma } from '../../src/adapters/transactions/prisma.ts';
import { fromSequelize } from '../../src/adapters/transactions/sequelize.ts';
import { fromTypeOrm } from '../../src/adapters/transactions/typeorm.ts';
import type { PrismaClient } from '../support/prisma/postgres/generated/client.ts';

const nightly = task('shop.nightly');

export async function handles(given: {
  readonly pgSql: Sql;
  readonly kysely: Kysely<{ orders: { id: string } }>;
  readonly prisma: PrismaClient;
  readonly source: DataSource;
  readonly knex: Knex;
  readonly orm: MikroORM;
  readonly sequelize: Sequelize;
}): Promise<void> {
  const viaPostgresJs = createOutlast({ adapter: fromPostgresJs(given.pgSql) });
  await given.pgSql.begin(tx => viaPostgresJs.send(tx, nightly));
  // @ts-expect-error -- the pool is no transaction
  await viaPostgresJs.send(given.pgSql, nightly);

  const viaKysely = createOutlast({ adapter: fromKysely(given.kysely, { dialect: 'postgres' }) });
  await given.kysely.transaction().execute(tx => viaKysely.send(tx, nightly));
  // @ts-expect-error -- the database is no transaction
  await viaKysely.send(given.kysely, nightly);

  const db = drizzle('postgres://localhost/shop');
  const viaDrizzle = createOutlast({ adapter: fromDrizzle(db, { dialect: 'postgres', sql }) });
  await db.transaction(tx => viaDrizzle.send(tx, nightly));
  // @ts-expect-error -- the database is no transaction
  await viaDrizzle.send(db, nightly);

  const viaPrisma = createOutlast({ adapter: fromPrisma(given.prisma, { dialect: 'postgres' }) });
  await given.prisma.$transaction(tx => viaPrisma.send(tx, nightly));
  // @ts-expect-error -- the client is no transaction
  await viaPrisma.send(given.prisma, nightly);

  const viaTypeOrm = createOutlast({ adapter: fromTypeOrm(given.source) });
  await given.source.transaction(tx => viaTypeOrm.send(tx, nightly));
  // @ts-expect-error -- the data source is no manager
  await viaTypeOrm.send(given.source, nightly);

  const viaKnex = createOutlast({ adapter: fromKnex(given.knex, { dialect: 'postgres' }) });
  await given.knex.transaction(tx => viaKnex.send(tx, nightly));
  // @ts-expect-error -- knex itself is no transaction
  await viaKnex.send(given.knex, nightly);

  const viaMikroOrm = createOutlast({ adapter: fromMikroOrm(given.orm, { dialect: 'postgres' }) });
  await given.orm.em.transactional(tx => viaMikroOrm.send(tx, nightly));
  // @ts-expect-error -- the ORM is no manager
  await viaMikroOrm.send(given.orm, nightly);

  const viaSequelize = createOutlast({ adapter: fromSequelize(given.sequelize) });
  await given.sequelize.transaction(tx => viaSequelize.send(tx, nightly));
  // @ts-expect-error -- the pool is no transaction
  await viaSequelize.send(given.sequelize, nightly);
}

export async function drivers(given: {
  readonly pool: Pool;
  readonly lite: PGlite;
  readonly mysql: MysqlPool;
  readonly mariadb: MariadbPool;
}): Promise<void> {
  const viaPg = createOutlast({ adapter: fromPg(given.pool) });
  await viaPg.send(await given.pool.connect(), nightly);
  // @ts-expect-error -- the pool is no transaction
  await viaPg.send(given.pool, nightly);

  const viaPGlite = createOutlast({ adapter: fromPGlite(given.lite) });
  await given.lite.transaction(tx => viaPGlite.send(tx, nightly));
  // @ts-expect-error -- the database is no transaction
  await viaPGlite.send(given.lite, nightly);

  const viaMysql2 = createOutlast({ adapter: fromMysql2(given.mysql) });
  await viaMysql2.send(await given.mysql.getConnection(), nightly);
  // @ts-expect-error -- the pool is no connection
  await viaMysql2.send(given.mysql, nightly);

  const viaMariadb = createOutlast({ adapter: fromMariadb(given.mariadb) });
  await viaMariadb.send(await given.mariadb.getConnection(), nightly);
  // @ts-expect-error -- the pool is no connection
  await viaMariadb.send(given.mariadb, nightly);
}
