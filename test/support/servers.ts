import { randomUUID } from 'node:crypto';
import { createConnection } from 'mysql2/promise';
import { Client, DatabaseError, escapeIdentifier } from 'pg';

/** A database that belongs to one test. */
export interface TestDatabase {
  readonly url: string;
  drop(): Promise<void>;
}

/** The URL of the PostgreSQL server of this test run. Its user may create databases. */
export function postgresUrl(): string {
  return required('OUTLAST_TEST_POSTGRES_URL', 'node scripts/servers.mjs postgres');
}

/** The URL of the MariaDB server of this test run. Its user may create databases. */
export function mariadbUrl(): string {
  return required('OUTLAST_TEST_MARIADB_URL', 'node scripts/servers.mjs mariadb');
}

/** The URL of the RabbitMQ of this test run. */
export function rabbitmqUrl(): string {
  return required('OUTLAST_TEST_RABBITMQ_URL', 'node scripts/servers.mjs rabbitmq');
}

/** The path of a Chromium that the tests may drive. */
export function chromiumPath(): string {
  return required('OUTLAST_TEST_CHROMIUM', 'apt-get install chromium, and its path');
}

/** The path of a Node 22, or undefined where there is none: skip the test then. */
export function node22Path(): string | undefined {
  return process.env['OUTLAST_TEST_NODE22'];
}

/** Creates an empty database. The caller drops it: `onTestFinished(() => database.drop())`. */
export async function withDatabase(name = 'test'): Promise<TestDatabase> {
  const database = `${name}_${randomUUID().replaceAll('-', '')}`;
  const server = postgresUrl();
  await execute(server, `create database ${escapeIdentifier(database)}`);
  const url = new URL(server);
  url.pathname = `/${database}`;
  return {
    url: url.href,
    drop: () => dropDatabase(server, escapeIdentifier(database)),
  };
}

/**
 * Waits for sessions that are just ending: ended by force, one of a pool without an error listener would end the process. The
 * server waits five seconds for them. Sessions that a failed or killed process has left are ended then.
 */
async function dropDatabase(server: string, name: string): Promise<void> {
  const statement = `drop database if exists ${name}`;
  try {
    await execute(server, statement);
  } catch (error) {
    if (!(error instanceof DatabaseError) || error.code !== OBJECT_IN_USE) throw error;
    await execute(server, `${statement} with (force)`);
  }
}

const OBJECT_IN_USE = '55006';

/** Creates an empty database on the MariaDB server. The caller drops it. */
export async function withMariadb(name = 'test'): Promise<TestDatabase> {
  const database = `${name}_${randomUUID().replaceAll('-', '')}`;
  const server = mariadbUrl();
  await executeMysql(server, `create database ${database}`);
  const url = new URL(server);
  url.pathname = `/${database}`;
  return {
    url: url.href,
    drop: () => executeMysql(server, `drop database if exists ${database}`),
  };
}

async function executeMysql(url: string, statement: string): Promise<void> {
  const connection = await createConnection(url);
  try {
    await connection.query(statement);
  } finally {
    await connection.end();
  }
}

/** The URL of the Redis of this test run, which tests share: they use names of their own and never flush it. */
export function redisUrl(): string {
  return required('OUTLAST_TEST_REDIS_URL', 'node scripts/servers.mjs redis');
}

/** The path of a rabbitmq-server, for tests that need one to themselves. */
export function rabbitmqServerPath(): string {
  return required(
    'OUTLAST_TEST_RABBITMQ_SERVER',
    'apt-get install rabbitmq-server, and /usr/lib/rabbitmq/bin/rabbitmq-server',
  );
}

/** The path of a PostgreSQL server, with the programs of its version beside it, for tests that need one to themselves. */
export function postgresServerPath(): string {
  return required('OUTLAST_TEST_POSTGRES_SERVER', 'apt-get install postgresql, and its path');
}

/** The path of a redis-server, for tests that need one to themselves. */
export function redisServerPath(): string {
  return required('OUTLAST_TEST_REDIS_SERVER', 'apt-get install redis-server, and its path');
}

/** The path of a pgbouncer. */
export function pgbouncerPath(): string {
  return required('OUTLAST_TEST_PGBOUNCER', 'apt-get install pgbouncer, and its path');
}

/** The path of Prometheus's promtool. */
export function promtoolPath(): string {
  return required('OUTLAST_TEST_PROMTOOL', 'apt-get install prometheus, and the path of promtool');
}

/** The path of a Python that has Celery. */
export function celeryPython(): string {
  return required(
    'OUTLAST_TEST_CELERY_PYTHON',
    'apt-get install python3-celery python3-redis, and /usr/bin/python3',
  );
}

async function execute(url: string, statement: string): Promise<void> {
  const client = new Client({ connectionString: url });
  await client.connect();
  try {
    await client.query(statement);
  } finally {
    await client.end();
  }
}

function required(name: string, other: string): string {
  const value = process.env[name];
  if (value !== undefined && value !== '') return value;
  throw new Error(`${name} is not set. Run the tests with npm test, or set it by hand (${other}).`);
}
