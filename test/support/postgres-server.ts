import { execFile, execFileSync, spawn, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { chownSync, mkdtempSync, realpathSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { promisify } from 'node:util';
import { Client } from 'pg';
import { until } from './database.ts';
import { freePort } from './redis-server.ts';
import { postgresServerPath } from './servers.ts';

/** A PostgreSQL that belongs to one test, to be killed, restarted or copied. */
export interface OwnPostgres {
  readonly url: string;
  /** Kills it, and waits for its end. */
  kill(): Promise<void>;
  /** As `pg_ctl stop -m immediate`: what it has not written to its log is lost, and the next start recovers. */
  crash(): Promise<void>;
  start(): Promise<void>;
  /** A standby that replicates every commit of the server at this URL, a moment later. */
  standbyOf(url: string): Promise<OwnPostgres>;
  dispose(): Promise<void>;
}

/** Starts a private server with one account and no password. */
export async function startPostgres(): Promise<OwnPostgres> {
  const folder = makeFolder();
  const initdb = ['--username=postgres', '--auth=trust', '--encoding=UTF8', '--no-locale'];
  await run('initdb', ['--no-sync', ...initdb, '-D', join(folder, 'data')]);
  return await serve(folder);
}

async function serve(folder: string): Promise<OwnPostgres> {
  const port = await freePort();
  const url = `postgres://postgres@127.0.0.1:${port}/postgres`;
  const settings = [
    'listen_addresses=127.0.0.1',
    `port=${port}`,
    'unix_socket_directories=',
    'fsync=off',
    'shared_buffers=16MB',
    'max_connections=200',
    'hot_standby=on',
  ];
  let child: ChildProcess | undefined;
  const start = async (): Promise<void> => {
    const args = ['-D', join(folder, 'data'), ...settings.flatMap(setting => ['-c', setting])];
    const launch = (): ChildProcess =>
      spawn(program('postgres'), args, { stdio: 'ignore', ...owner() });
    child = launch();
    await until(async () => {
      // The children of one that was killed keep its memory for a moment, and it does not start beside them.
      if (typeof child?.exitCode === 'number') child = launch();
      return await isAnswering(url);
    });
  };
  const end = async (signal: 'SIGKILL' | 'SIGQUIT'): Promise<void> => {
    if (child === undefined || child.exitCode !== null || child.signalCode !== null) return;
    const exit = once(child, 'exit');
    child.kill(signal);
    await exit;
  };
  const kill = (): Promise<void> => end('SIGKILL');
  await start();
  return {
    url,
    kill,
    crash: () => end('SIGQUIT'),
    start,
    standbyOf: async source => {
      const copy = makeFolder();
      const target = join(copy, 'data');
      await run('pg_basebackup', [
        '-R',
        '-c',
        'fast',
        '-N',
        '-X',
        'stream',
        '-D',
        target,
        '-d',
        source,
      ]);
      return await serve(copy);
    },
    dispose: async () => {
      await kill();
      rmSync(folder, { recursive: true, force: true });
    },
  };
}

/** The programs of one version stand beside each other; the search path may hold a link to the server alone. */
const program = (name: string): string => join(dirname(realpathSync(postgresServerPath())), name);

const run = async (name: string, args: readonly string[]): Promise<void> => {
  await promisify(execFile)(program(name), [...args], owner());
};

function makeFolder(): string {
  const folder = mkdtempSync(join(tmpdir(), 'own-postgres-'));
  const { uid, gid } = owner();
  if (uid !== undefined && gid !== undefined) chownSync(folder, uid, gid);
  return folder;
}

/** It refuses to run as root. */
function owner(): { readonly uid?: number; readonly gid?: number; readonly cwd: string } {
  if (process.getuid?.() !== 0) return { cwd: tmpdir() };
  const idOf = (what: string): number =>
    Number(execFileSync('id', [what, 'postgres'], { encoding: 'utf8' }));
  return { uid: idOf('-u'), gid: idOf('-g'), cwd: tmpdir() };
}

async function isAnswering(url: string): Promise<boolean> {
  const client = new Client({ connectionString: url });
  try {
    await client.connect();
    await client.query('select 1');
    return true;
  } catch {
    return false;
  } finally {
    await client.end().catch(() => undefined);
  }
}
