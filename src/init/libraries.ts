import { posix } from 'node:path';

export type Dialect = 'postgres' | 'mysql';

export interface Import {
  readonly from: string;
  readonly names?: readonly string[];
  readonly base?: string;
  /** A file of the project: it is named as the project names its files. */
  readonly isOwn?: true;
}

/** The part of `src/outlast` that is a library's own. */
export interface Instance {
  readonly imports: readonly Import[];
  /** Statements before the instance. `url` is a variable. */
  readonly setup: readonly string[];
  readonly adapter: string;
  readonly close: string;
  /** What must have ended before the first transaction. */
  readonly ready?: string;
}

/** Where the schema of Prisma is, and what it says. */
export interface Surroundings {
  readonly dialect: Dialect;
  readonly prismaSchema: string | null;
  /** From the folder of the instance to the folder of the project. */
  readonly up: string;
}

/** A library whose transactions tasks are sent in. */
export interface Library {
  readonly name: string;
  readonly title: string;
  /** One of them in package.json means that the application uses it. */
  readonly packages: readonly string[];
  readonly dialects: readonly Dialect[];
  /** What must be installed beside it. */
  readonly drivers: (dialect: Dialect) => readonly string[];
  readonly instance: (where: Surroundings) => Instance;
}

const BOTH = ['postgres', 'mysql'] as const;
const driver = (dialect: Dialect): readonly string[] => [dialect === 'postgres' ? 'pg' : 'mysql2'];
const PG_POOL: Import = { from: 'pg', names: ['Pool'] };
const NEW_PG_POOL = 'const pool = new Pool({ connectionString: url });';
const END_POOL = 'await pool.end();';

/** What brings another one along comes before it. */
export const LIBRARIES: readonly Library[] = [
  {
    name: 'prisma',
    title: 'Prisma',
    packages: ['@prisma/client', 'prisma'],
    dialects: BOTH,
    drivers: dialect => [
      '@prisma/client',
      dialect === 'postgres' ? '@prisma/adapter-pg' : '@prisma/adapter-mariadb',
    ],
    instance: prisma,
  },
  {
    name: 'drizzle',
    title: 'Drizzle',
    packages: ['drizzle-orm'],
    dialects: BOTH,
    drivers: dialect => ['drizzle-orm', ...driver(dialect)],
    instance: ({ dialect }) => ({
      imports: [
        { from: 'drizzle-orm', names: ['sql'] },
        {
          from: `drizzle-orm/${dialect === 'postgres' ? 'node-postgres' : 'mysql2'}`,
          names: ['drizzle'],
        },
        dialect === 'postgres' ? PG_POOL : { from: 'mysql2/promise', names: ['createPool'] },
        { from: 'outlast/drizzle', names: ['fromDrizzle'] },
      ],
      setup: [
        dialect === 'postgres' ? NEW_PG_POOL : 'const pool = createPool(url);',
        'const db = drizzle(pool);',
      ],
      adapter: `fromDrizzle(db, { dialect: '${dialect}', sql })`,
      close: END_POOL,
    }),
  },
  {
    name: 'typeorm',
    title: 'TypeORM',
    packages: ['typeorm'],
    dialects: BOTH,
    drivers: dialect => ['typeorm', ...driver(dialect)],
    instance: ({ dialect }) => ({
      imports: [
        { from: 'typeorm', names: ['DataSource'] },
        { from: 'outlast/typeorm', names: ['fromTypeOrm'] },
      ],
      setup: [`const source = new DataSource({ type: '${dialect}', url });`],
      ready: 'source.initialize()',
      adapter: 'fromTypeOrm(source)',
      close: 'await source.destroy();',
    }),
  },
  {
    name: 'mikro-orm',
    title: 'MikroORM',
    packages: [
      '@mikro-orm/core',
      '@mikro-orm/postgresql',
      '@mikro-orm/mysql',
      '@mikro-orm/mariadb',
    ],
    dialects: BOTH,
    drivers: dialect => [`@mikro-orm/${dialect === 'postgres' ? 'postgresql' : 'mariadb'}`],
    instance: ({ dialect }) => ({
      imports: [
        {
          from: `@mikro-orm/${dialect === 'postgres' ? 'postgresql' : 'mariadb'}`,
          names: ['MikroORM'],
        },
        { from: 'outlast/mikro-orm', names: ['fromMikroOrm'] },
      ],
      setup: [
        '// Your own options have the entities.',
        'const orm = MikroORM.initSync({',
        '  clientUrl: url,',
        '  entities: [],',
        '  discovery: { warnWhenNoEntities: false },',
        '});',
      ],
      adapter: `fromMikroOrm(orm, { dialect: '${dialect}' })`,
      close: 'await orm.close();',
    }),
  },
  {
    name: 'sequelize',
    title: 'Sequelize',
    packages: ['sequelize'],
    dialects: BOTH,
    drivers: dialect => ['sequelize', ...driver(dialect)],
    instance: () => ({
      imports: [
        { from: 'sequelize', names: ['Sequelize'] },
        { from: 'outlast/sequelize', names: ['fromSequelize'] },
      ],
      setup: ['const sequelize = new Sequelize(url, { logging: false });'],
      adapter: 'fromSequelize(sequelize)',
      close: 'await sequelize.close();',
    }),
  },
  {
    name: 'kysely',
    title: 'Kysely',
    packages: ['kysely'],
    dialects: BOTH,
    drivers: dialect => ['kysely', ...driver(dialect)],
    instance: ({ dialect }) => ({
      imports: [
        {
          from: 'kysely',
          names: ['Kysely', dialect === 'postgres' ? 'PostgresDialect' : 'MysqlDialect'],
        },
        dialect === 'postgres' ? PG_POOL : { from: 'mysql2', names: ['createPool'] },
        { from: 'outlast/kysely', names: ['fromKysely'] },
      ],
      setup: [
        dialect === 'postgres' ? NEW_PG_POOL : 'const pool = createPool(url);',
        dialect === 'postgres'
          ? 'const db = new Kysely({ dialect: new PostgresDialect({ pool }) });'
          : 'const db = new Kysely({ dialect: new MysqlDialect({ pool }) });',
      ],
      adapter: `fromKysely(db, { dialect: '${dialect}' })`,
      close: 'await db.destroy();',
    }),
  },
  {
    name: 'knex',
    title: 'Knex',
    packages: ['knex'],
    dialects: BOTH,
    drivers: dialect => ['knex', ...driver(dialect)],
    instance: ({ dialect }) => ({
      imports: [
        { from: 'knex', base: 'createKnex' },
        { from: 'outlast/knex', names: ['fromKnex'] },
      ],
      setup: [
        `const knex = createKnex({ client: '${dialect === 'postgres' ? 'pg' : 'mysql2'}', connection: url });`,
      ],
      adapter: `fromKnex(knex, { dialect: '${dialect}' })`,
      close: 'await knex.destroy();',
    }),
  },
  {
    name: 'postgres-js',
    title: 'postgres.js',
    packages: ['postgres'],
    dialects: ['postgres'],
    drivers: () => ['postgres', 'pg'],
    instance: () => ({
      imports: [
        { from: 'postgres', base: 'postgres' },
        { from: 'outlast/postgres-js', names: ['fromPostgresJs'] },
      ],
      setup: ['const sql = postgres(url);'],
      adapter: 'fromPostgresJs(sql)',
      close: 'await sql.end();',
    }),
  },
  {
    name: 'pg',
    title: 'pg',
    packages: ['pg'],
    dialects: ['postgres'],
    drivers: () => ['pg'],
    instance: () => ({
      imports: [PG_POOL, { from: 'outlast/pg', names: ['fromPg'] }],
      setup: [NEW_PG_POOL],
      adapter: 'fromPg(pool)',
      close: END_POOL,
    }),
  },
  {
    name: 'mysql2',
    title: 'mysql2',
    packages: ['mysql2'],
    dialects: ['mysql'],
    drivers: () => ['mysql2'],
    instance: () => ({
      imports: [
        { from: 'mysql2/promise', names: ['createPool'] },
        { from: 'outlast/mysql2', names: ['fromMysql2'] },
      ],
      setup: ['const pool = createPool(url);'],
      adapter: 'fromMysql2(pool)',
      close: END_POOL,
    }),
  },
  {
    name: 'mariadb',
    title: 'mariadb',
    packages: ['mariadb'],
    dialects: ['mysql'],
    drivers: () => ['mariadb'],
    instance: () => ({
      imports: [
        { from: 'mariadb', names: ['createPool'] },
        { from: 'outlast/mariadb', names: ['fromMariadb'] },
      ],
      setup: [`const pool = createPool(url.replace(/^mysql:/, 'mariadb:'));`],
      adapter: 'fromMariadb(pool)',
      close: END_POOL,
    }),
  },
];

/** Prisma 7 generates its client into a folder that the schema names; before, into a package. */
function prisma({ dialect, prismaSchema, up }: Surroundings): Instance {
  const output = /generator\s+\w+\s*\{[^}]*?output\s*=\s*"([^"]+)"/.exec(prismaSchema ?? '')?.[1];
  const client =
    output === undefined ? '@prisma/client' : `${up}${posix.join('prisma', output, 'client')}`;
  const adapter =
    dialect === 'postgres'
      ? {
          from: '@prisma/adapter-pg',
          name: 'PrismaPg',
          made: 'new PrismaPg({ connectionString: url })',
        }
      : { from: '@prisma/adapter-mariadb', name: 'PrismaMariaDb', made: 'new PrismaMariaDb(url)' };
  return {
    imports: [
      { from: client, names: ['PrismaClient'], ...(output === undefined ? {} : { isOwn: true }) },
      { from: adapter.from, names: [adapter.name] },
      { from: 'outlast/prisma', names: ['fromPrisma'] },
    ],
    setup: [`const prisma = new PrismaClient({ adapter: ${adapter.made} });`],
    adapter: `fromPrisma(prisma, { dialect: '${dialect}' })`,
    close: 'await prisma.$disconnect();',
  };
}
