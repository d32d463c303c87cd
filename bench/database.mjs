// @ts-check
import { Client, Pool } from 'pg';
import { runCli } from './outlast.mjs';

/** The PostgreSQL that `scripts/bench.mjs` started. */
export const POSTGRES_URL = process.env.OUTLAST_TEST_POSTGRES_URL ?? '';

/**
 * An empty database of this name with Outlast's tables, and a pool on it.
 * @param {string} name
 * @param {number} [connections]
 */
export async function makeDatabase(name, connections = 4) {
  const server = new Client({ connectionString: POSTGRES_URL });
  await server.connect();
  await server.query(`drop database if exists ${name} with (force)`);
  await server.query(`create database ${name}`);
  await server.end();
  const address = new URL(POSTGRES_URL);
  address.pathname = `/${name}`;
  const url = address.href;
  await runCli(['migrate'], { database: url });
  return { url, pool: new Pool({ connectionString: url, max: connections }) };
}
