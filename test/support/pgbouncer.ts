import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { chmodSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Client } from 'pg';
import { until } from './database.ts';
import { freePort } from './redis-server.ts';
import { pgbouncerPath } from './servers.ts';

/** A PgBouncer that belongs to one test. */
export interface OwnPgbouncer {
  /** As the URL that was given, through the pooler. */
  readonly url: string;
  dispose(): Promise<void>;
}

/**
 * Starts a PgBouncer in transaction mode before a database, with few sessions, so that clients are given another one all
 * the time, and with no settings that would make it easier on us.
 */
export async function startPgbouncer(databaseUrl: string, sessions = 2): Promise<OwnPgbouncer> {
  const folder = mkdtempSync(join(tmpdir(), 'own-pgbouncer-'));
  const server = new URL(databaseUrl);
  const port = await freePort();
  const config = join(folder, 'pgbouncer.ini');
  writeFileSync(
    config,
    [
      '[databases]',
      `* = host=${server.hostname} port=${server.port} user=${server.username}`,
      '[pgbouncer]',
      'listen_addr = 127.0.0.1',
      `listen_port = ${port}`,
      'unix_socket_dir =',
      'auth_type = any',
      'pool_mode = transaction',
      `default_pool_size = ${sessions}`,
      'max_client_conn = 200',
      'log_connections = 0',
      'log_disconnections = 0',
      '',
    ].join('\n'),
  );
  chmodSync(folder, 0o755);
  const child = spawn(pgbouncerPath(), [...asOtherUser(), '--quiet', config], { stdio: 'ignore' });
  const through = new URL(databaseUrl);
  through.port = String(port);
  await until(() => isAnswering(through.href));
  return {
    url: through.href,
    dispose: async () => {
      const exit = once(child, 'exit');
      child.kill('SIGKILL');
      await exit;
      rmSync(folder, { recursive: true, force: true });
    },
  };
}

/** It refuses to run as root. */
const asOtherUser = (): readonly string[] => (process.getuid?.() === 0 ? ['--user=postgres'] : []);

async function isAnswering(url: string): Promise<boolean> {
  const client = new Client({ connectionString: url });
  try {
    await client.connect();
    await client.end();
    return true;
  } catch {
    return false;
  }
}
