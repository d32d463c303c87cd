import { once } from 'node:events';
import type { Server } from 'node:http';
import { connect, type AddressInfo, type Socket } from 'node:net';
import { networkInterfaces } from 'node:os';
import { afterEach, describe, expect, it } from 'vitest';
import { resolveConfig } from '../../src/config/config.ts';
import { serveHealth } from '../../src/process/health/health-server.ts';
import { BAD_REQUESTS } from './corpus/requests.ts';

const HEALTH = { alive: true, ready: true, details: { queue_depth: 7 } };
const BARE = { alive: true, ready: true };
/** An address of this machine that others can reach; undefined without a network. */
const outside = Object.values(networkInterfaces())
  .flatMap(list => list ?? [])
  .find(({ internal, family }) => !internal && family === 'IPv4')?.address;

const servers: Server[] = [];
const sockets: Socket[] = [];
afterEach(() => {
  for (const socket of sockets.splice(0)) socket.destroy();
  for (const server of servers.splice(0)) server.close();
});

async function setup(host = '127.0.0.1') {
  const server = await serveHealth(() => HEALTH, { host, port: 0 });
  servers.push(server);
  const { port } = server.address() as AddressInfo;
  const open = async (bytes: string, to = '127.0.0.1'): Promise<Socket> => {
    const socket = connect(port, to).on('error', () => undefined);
    sockets.push(socket);
    await once(socket, 'connect');
    socket.write(bytes);
    return socket;
  };
  const ask = async (headers: string, to?: string): Promise<unknown> => {
    const socket = await open(`GET /ready HTTP/1.1\r\n${headers}\r\n`, to);
    let text = '';
    socket.on('data', data => (text += String(data)));
    await once(socket, 'close');
    return JSON.parse(text.split('\r\n\r\n')[1] ?? 'null');
  };
  const connections = () =>
    new Promise<number>((resolve, reject) =>
      server.getConnections((error, count) => (error ? reject(error) : resolve(count))),
    );
  return { open, ask, connections, port };
}

describe('the health port', () => {
  it('listens on this machine only, unless another address is configured', () => {
    const { worker, relay } = resolveConfig({ worker: { healthPort: 8080 } });
    expect([worker.healthHost, relay.healthHost]).toEqual(['127.0.0.1', '127.0.0.1']);
    const given = resolveConfig({}, { OUTLAST_WORKER_HEALTH_HOST: '0.0.0.0' });
    expect(given.worker.healthHost).toBe('0.0.0.0');
    expect(() => resolveConfig({ relay: { healthHost: 'a b' } })).toThrow('healthHost');
  });

  it.skipIf(outside === undefined)('cannot be reached from outside by default', async () => {
    const { port } = await setup();
    const socket = connect(port, outside);
    const [error] = (await once(socket, 'error')) as [NodeJS.ErrnoException];
    expect(error.code).toBe('ECONNREFUSED');
  });

  it('returns figures to this machine and only the status to all others', async () => {
    const { ask } = await setup('0.0.0.0');
    expect(await ask('Host: localhost\r\n')).toEqual({ ...BARE, queue_depth: 7 });
    expect(await ask('Host: evil.example\r\n')).toEqual(BARE);
    if (outside !== undefined) expect(await ask('Host: localhost\r\n', outside)).toEqual(BARE);
  });

  it('limits its connections, and answers a probe among four hundred partial requests', async () => {
    const { open, ask, connections } = await setup();
    for (let i = 0; i < 400; i++) await open('GET /ready HTTP/1.1\r\nX-A: ');
    expect(await ask('Host: localhost\r\n')).toMatchObject(BARE);
    expect(await connections()).toBeLessThanOrEqual(32);
  });

  it('closes every connection that is not a short request', async () => {
    const { open } = await setup();
    const ends = BAD_REQUESTS.map(async ([what, bytes]) => {
      const socket = await open(bytes);
      socket.resume();
      await once(socket, 'close');
      return what;
    });
    expect(await Promise.all(ends)).toEqual(BAD_REQUESTS.map(([what]) => what));
  });

  it('closes a connection that sends one byte now and then', async () => {
    const { open } = await setup();
    const socket = await open('GET /ready HTTP/1.1\r\nX-A: ');
    const drip = setInterval(() => socket.write('x'), 100);
    await once(socket.resume(), 'close');
    clearInterval(drip);
  });
});
