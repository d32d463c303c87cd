import { execFileSync, spawn, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { chmodSync, chownSync, mkdirSync, mkdtempSync, rmSync } from 'node:fs';
import { connect } from 'node:net';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { rabbitmqEnv } from '../../scripts/servers/rabbitmq-env.mjs';
import { until } from './database.ts';
import { freePort } from './redis-server.ts';
import { rabbitmqServerPath } from './servers.ts';

/** A RabbitMQ that belongs to one test file, to be killed, restarted and alarmed. */
export interface OwnRabbit {
  readonly url: string;
  /** Kills it: everything that it had confirmed must be there when it starts again. */
  kill(): Promise<void>;
  /** Starts it on the same ports and folder. */
  start(): Promise<void>;
  /** Runs `rabbitmqctl`. */
  control(...args: readonly string[]): Promise<void>;
  dispose(): Promise<void>;
}

/** It refuses to be root; the packages have made a user for it. */
function idsOfRabbit(): { readonly uid: number; readonly gid: number } | Record<never, never> {
  if (process.getuid?.() !== 0) return {};
  const id = (flag: string): number =>
    Number(execFileSync('id', [flag, 'rabbitmq'], { encoding: 'utf8' }));
  return { uid: id('-u'), gid: id('-g') };
}

export async function startRabbit(): Promise<OwnRabbit> {
  const folder = mkdtempSync(join(tmpdir(), 'own-rabbit-'));
  chmodSync(folder, 0o711);
  const ids = idsOfRabbit();
  const ports = [await freePort(), await freePort(), await freePort()];
  const port = (index = 0): number => ports[index] ?? 0;
  const makeFolder = (name: string): string => {
    const path = join(folder, name);
    mkdirSync(path, { recursive: true, mode: 0o700 });
    if ('uid' in ids) chownSync(path, ids.uid, ids.gid);
    return path;
  };
  const home = makeFolder('home');
  const env = {
    ...process.env,
    ...rabbitmqEnv({ folder, port, makeFolder }),
    HOME: home,
    LC_ALL: 'C',
  };
  // A separate process group: all processes of a node must end with it.
  const run = (command: string, args: readonly string[]): ChildProcess =>
    spawn(command, args, { cwd: home, env, stdio: 'ignore', detached: true, ...ids });
  const mapper = run('epmd', ['-port', String(port(2)), '-address', '127.0.0.1']);
  let node: ChildProcess | undefined;
  const start = async (): Promise<void> => {
    node = run(rabbitmqServerPath(), []);
    await until(() => isAnswering(port()));
  };
  const kill = async (): Promise<void> => {
    if (node) await killGroup(node);
    node = undefined;
  };
  await start();
  return {
    url: `amqp://guest:guest@127.0.0.1:${port()}/`,
    start,
    kill,
    control: async (...args) => {
      const child = run(join(dirname(rabbitmqServerPath()), 'rabbitmqctl'), args);
      const [code] = (await once(child, 'exit')) as [number | null];
      if (code !== 0) throw new Error(`rabbitmqctl ${args.join(' ')} ended with ${code}`);
    },
    dispose: async () => {
      await kill();
      await killGroup(mapper);
      rmSync(folder, { recursive: true, force: true, maxRetries: 5 });
    },
  };
}

async function killGroup(child: ChildProcess): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null || child.pid === undefined) return;
  const exit = once(child, 'exit');
  process.kill(-child.pid, 'SIGKILL');
  await exit;
}

/** Whether it begins the handshake: a method frame on channel 0. */
function isAnswering(port: number): Promise<boolean> {
  return new Promise(resolve => {
    const finish = (isIt: boolean): void => {
      socket.destroy();
      resolve(isIt);
    };
    const socket = connect(port, '127.0.0.1', () => socket.write('AMQP\0\0\x09\x01', 'latin1'));
    socket.on('data', (data: Buffer) => finish(data[0] === 1));
    socket.on('error', () => finish(false));
    socket.on('close', () => finish(false));
  });
}
