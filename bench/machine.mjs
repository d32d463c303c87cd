// @ts-check
/** What was measured on: figures without it mean nothing. */
import { createRequire } from 'node:module';
import { cpus, totalmem } from 'node:os';
import { Client } from 'pg';
import { POSTGRES_URL } from './database.mjs';
import { VERSION } from './outlast.mjs';

const POSTGRES_SETTINGS = [
  'server_version',
  'fsync',
  'synchronous_commit',
  'full_page_writes',
  'shared_buffers',
];

const require = createRequire(import.meta.url);

export async function describeMachine() {
  return {
    date: new Date().toISOString(),
    processor: cpus()[0]?.model ?? 'unknown',
    cores: cpus().length,
    memory_gb: Math.round(totalmem() / 2 ** 30),
    node: process.version,
    packages: {
      outlast: VERSION,
      ...Object.fromEntries(
        ['pg', 'pg-boss', 'graphile-worker', 'amqplib', 'ioredis'].map(name => [
          name,
          versionOf(name),
        ]),
      ),
    },
    postgres: await postgresSettings(),
    ...(process.env.OUTLAST_TEST_REDIS_URL === undefined ? {} : { redis: await redisSettings() }),
    ...(process.env.OUTLAST_TEST_RABBITMQ_URL === undefined
      ? {}
      : { rabbitmq: await rabbitmqSettings() }),
  };
}

/** @param {string} name */
function versionOf(name) {
  // Some packages do not export their package.json.
  const paths = require.resolve.paths(name) ?? [];
  for (const folder of paths) {
    try {
      return String(require(`${folder}/${name}/package.json`).version);
    } catch {
      // Not in this folder.
    }
  }
  return 'unknown';
}

async function postgresSettings() {
  const client = new Client({ connectionString: POSTGRES_URL });
  await client.connect();
  const { rows } = await client.query(
    'select name, setting from pg_settings where name = any($1) order by name',
    [POSTGRES_SETTINGS],
  );
  await client.end();
  return Object.fromEntries(rows.map(({ name, setting }) => [name, setting]));
}

async function redisSettings() {
  const { Redis } = await import('ioredis');
  const redis = new Redis(process.env.OUTLAST_TEST_REDIS_URL ?? '');
  const version = /redis_version:(\S+)/.exec(await redis.info('server'))?.[1];
  const settings = await redis.config('GET', 'append*');
  redis.disconnect();
  const at = (/** @type {string} */ name) => settings[settings.indexOf(name) + 1];
  return { version, appendonly: at('appendonly'), appendfsync: at('appendfsync') };
}

async function rabbitmqSettings() {
  const { connect } = await import('amqplib');
  const connection = await connect(process.env.OUTLAST_TEST_RABBITMQ_URL ?? '');
  const { version } = connection.connection.serverProperties;
  await connection.close();
  return { version, messages: 'persistent, confirmed, in durable queues on disk' };
}

/**
 * @param {Record<string, unknown>} machine
 */
export function printMachine(machine) {
  for (const [name, value] of Object.entries(machine)) {
    const text =
      typeof value === 'object' && value !== null
        ? Object.entries(value)
            .map(([key, one]) => `${key} ${String(one)}`)
            .join(', ')
        : String(value);
    console.log(`${name.padEnd(11)} ${text}`);
  }
}
