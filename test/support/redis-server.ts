import { spawn, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import { connect, createServer, type AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { until } from './database.ts';
import { redisServerPath } from './servers.ts';

/** A Redis that belongs to one test, to be restarted, filled or killed. */
export interface OwnRedis {
  readonly port: number;
  readonly url: string;
  readonly folder: string;
  /** Ends it, by SIGTERM or the given signal, and waits for that. */
  stop(signal?: NodeJS.Signals): Promise<void>;
  /** Starts it again on the same port and folder. */
  start(): Promise<void>;
  signal(signal: NodeJS.Signals): void;
  dispose(): Promise<void>;
}

const DEFAULTS = [
  '--bind',
  '127.0.0.1',
  '--save',
  '',
  '--daemonize',
  'no',
  '--loglevel',
  'warning',
];

/** Starts a private server; `args` are those of redis-server. */
export async function startRedis(args: readonly string[] = []): Promise<OwnRedis> {
  const folder = mkdtempSync(join(tmpdir(), 'own-redis-'));
  const port = await freePort();
  let child: ChildProcess | undefined;
  const start = async (): Promise<void> => {
    const all = ['--port', String(port), '--dir', folder, ...DEFAULTS, ...args];
    child = spawn(redisServerPath(), isSentinel(args) ? [...args, '--port', String(port)] : all, {
      stdio: ['ignore', 'ignore', 'inherit'],
    });
    await until(() => isAnswering(port));
  };
  const stop = async (signal: NodeJS.Signals = 'SIGTERM'): Promise<void> => {
    const ending = child;
    child = undefined;
    if (ending === undefined || ending.exitCode !== null || ending.signalCode !== null) return;
    const exit = once(ending, 'exit');
    ending.kill(signal);
    await exit;
  };
  await start();
  return {
    port,
    url: `redis://127.0.0.1:${port}/0`,
    folder,
    start,
    stop,
    signal: signal => void child?.kill(signal),
    dispose: async () => {
      await stop('SIGKILL');
      rmSync(folder, { recursive: true, force: true });
    },
  };
}

const isSentinel = (args: readonly string[]): boolean => args.includes('--sentinel');

/** Whether it serves; a request for a password is an answer too. */
async function isAnswering(port: number): Promise<boolean> {
  return /^(\+PONG|-NOAUTH)/.test(await ping(port));
}

/** What a server answers to a PING, without a client between: empty where there is none. */
export function ping(port: number): Promise<string> {
  return new Promise(resolve => {
    const socket = connect(port, '127.0.0.1', () => socket.write('PING\r\n'));
    const finish = (answer: string): void => {
      socket.destroy();
      resolve(answer);
    };
    socket.on('data', data => finish(data.toString()));
    socket.on('error', () => finish(''));
    socket.on('close', () => finish(''));
  });
}

export async function freePort(): Promise<number> {
  const server = createServer().listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  server.close();
  await once(server, 'close');
  return port;
}
