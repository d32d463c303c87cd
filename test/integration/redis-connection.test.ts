import { createHash } from 'node:crypto';
import { execFileSync } from 'node:child_process';
import { join } from 'node:path';
import { describe, expect, it, onTestFinished } from 'vitest';
import { type LuaScript, RedisConnection } from '../../src/adapters/redis/redis-connection.ts';
import { unique } from '../conformance/envelopes.ts';
import { until } from '../support/database.ts';
import { type OwnRedis, freePort, startRedis } from '../support/redis-server.ts';
import { startRedisCluster } from '../support/redis-cluster.ts';
import { redisUrl } from '../support/servers.ts';
import { startProxy } from '../support/reply-proxy.ts';
import { ScriptedSentinel } from '../support/scripted-sentinel.ts';

const script = (text: string): LuaScript => ({
  text,
  sha: createHash('sha1').update(text).digest('hex'),
});
const COUNT = script(`#!lua flags=allow-oom\nreturn redis.call('INCR', KEYS[1])`);

async function open(url: string, role: 'broker' | 'ledger' = 'broker'): Promise<RedisConnection> {
  const connection = await RedisConnection.open({ url, role, name: unique('test') });
  onTestFinished(() => connection.close());
  return connection;
}

async function own(args: readonly string[] = []): Promise<OwnRedis> {
  const server = await startRedis(args);
  onTestFinished(() => server.dispose());
  return server;
}

const read = async (connection: RedisConnection, key: string): Promise<string> =>
  String(await connection.command('get', key));

/** The first slot of the cluster's second node. */
const SECOND_NODE = 5_461;

/** A key in one of the 5,461 slots from this one on, which belong to one node. */
async function keyIn(connection: RedisConnection, from: number): Promise<string> {
  for (;;) {
    const key = unique('key');
    const slot = Number(await connection.command('cluster', 'keyslot', key));
    if (slot >= from && slot < from + SECOND_NODE) return key;
  }
}

describe('a connection to Redis', () => {
  it('runs a script that the server does not know, and again after SCRIPT FLUSH', async () => {
    const connection = await open((await own()).url);
    const key = unique('key');
    expect(await connection.script(COUNT, [key], [])).toBe(1);
    await connection.command('script', 'flush');
    expect(await connection.script(COUNT, [key], [])).toBe(2);
  });

  it('carries bytes that are not text', async () => {
    const connection = await open(redisUrl());
    const bytes = Buffer.from([0, 255, 254, 10, 13, 34]);
    await connection.command('set', unique('key'), bytes);
    const echo = script(`#!lua\nreturn ARGV[1]`);
    expect(await connection.script(echo, [], [new Uint8Array(bytes)])).toEqual(bytes);
  });

  it('does not repeat a command without a reply, and works afterwards', async () => {
    const proxy = await startProxy(Number(new URL(redisUrl()).port));
    onTestFinished(() => proxy.close());
    const url = new URL(redisUrl());
    url.port = String(proxy.port);
    const connection = await open(url.href);
    const direct = await open(redisUrl());
    const key = unique('key');
    await connection.script(COUNT, [key], []);
    proxy.muteReplies();
    const lost = connection.script(COUNT, [key], []).catch((error: unknown) => error);
    await until(async () => (await read(direct, key)) === '2');
    proxy.heal();
    expect(await lost).toMatchObject({ code: 'ERR_BROKER_UNAVAILABLE', scope: 'connection' });
    expect(await connection.script(COUNT, [key], [])).toBe(3);
  });

  it('reconnects by itself when its connection was killed', async () => {
    const connection = await open(redisUrl());
    const admin = await open(redisUrl());
    const id = await connection.command('client', 'id');
    await admin.command('client', 'kill', 'id', String(id));
    const again = await until(() => connection.command('client', 'id').catch(() => null));
    expect(again).not.toEqual(id);
  });

  it('reconnects to a restarted server', async () => {
    const server = await own(['--appendonly', 'yes']);
    const connection = await open(server.url);
    const key = unique('key');
    await connection.script(COUNT, [key], []);
    await server.stop();
    await expect(connection.script(COUNT, [key], [])).rejects.toMatchObject({
      code: 'ERR_BROKER_UNAVAILABLE',
    });
    await server.start();
    expect(await until(() => connection.script(COUNT, [key], []).catch(() => null))).toBe(2);
  });

  it('reconnects by itself when sentinels announced a new primary while it was looking for one', async () => {
    const sentinel = await ScriptedSentinel.start(Number(new URL(redisUrl()).port));
    onTestFinished(() => sentinel.close());
    const connection = await open(`sentinel://127.0.0.1:${sentinel.port}/shop/0`);
    let connected = 0;
    connection.onConnected(() => (connected += 1));
    const id = await connection.command('client', 'id');
    await until(async () => sentinel.listening === 1);
    sentinel.hold();
    await (await open(redisUrl())).command('client', 'kill', 'id', String(id));
    await until(async () => sentinel.waiting === 1);
    // It closes the connection to the sentinels in the middle of a request, and treats that as the end of all
    // connections.
    sentinel.announce();
    await until(async () => sentinel.listening === 0);
    sentinel.answer();
    await until(async () => connected === 2);
    expect(await connection.command('ping')).toEqual(Buffer.from('PONG'));
  });

  it('asks the next sentinel when one does not answer, and comes back to it when it does', async () => {
    const { port } = new URL(redisUrl());
    const [silent, other] = [
      await ScriptedSentinel.start(Number(port)),
      await ScriptedSentinel.start(Number(port)),
    ];
    onTestFinished(() => (silent.close(), other.close()));
    silent.hold();
    const both = `127.0.0.1:${silent.port},127.0.0.1:${other.port}`;
    const connection = await open(`sentinel://${both}/shop/0`);
    const alone = await open(`sentinel://127.0.0.1:${silent.port}/shop/0`);
    const ping = async (one: RedisConnection): Promise<unknown> =>
      await one.command('ping').catch(() => null);
    expect(await until(() => ping(connection))).toEqual(Buffer.from('PONG'));
    await expect(alone.command('ping')).rejects.toMatchObject({ code: 'ERR_BROKER_UNAVAILABLE' });
    // Earlier callers have given up, and ask again.
    silent.forget();
    expect(await until(() => ping(alone))).toEqual(Buffer.from('PONG'));
  });

  it('gives up on a server that does not answer', async () => {
    const server = await own();
    const connection = await open(server.url);
    await connection.command('ping');
    server.signal('SIGSTOP');
    await expect(connection.command('ping')).rejects.toMatchObject({
      code: 'ERR_BROKER_UNAVAILABLE',
    });
    server.signal('SIGCONT');
    expect(await until(() => connection.command('ping').catch(() => null))).toEqual(
      Buffer.from('PONG'),
    );
  });

  it('gives up on a node of a cluster that does not answer, while the other nodes go on', async () => {
    const cluster = await startRedisCluster();
    onTestFinished(() => cluster.dispose());
    const connection = await open(cluster.url);
    const [healthy, silent] = [await keyIn(connection, 0), await keyIn(connection, SECOND_NODE)];
    const count = async (key: string): Promise<unknown> =>
      await connection.script(COUNT, [key], []);
    expect([await count(healthy), await count(silent)]).toEqual([1, 1]);
    cluster.nodes[1]?.signal('SIGSTOP');
    onTestFinished(() => cluster.nodes[1]?.signal('SIGCONT'));
    const refused = expect(count(silent)).rejects.toMatchObject({ code: 'ERR_BROKER_UNAVAILABLE' });
    expect(await count(healthy)).toBe(2);
    await refused;
    expect(await count(healthy)).toBe(3);
    cluster.nodes[1]?.signal('SIGCONT');
    // The server may have read the call that was given up, and it was sent once.
    expect(await until(() => count(silent).catch(() => null))).toBeOneOf([2, 3]);
  });

  it('reports that the server refuses connections, with the URL but not its password', async () => {
    const server = await own();
    await server.stop();
    const url = `redis://:hunter2@127.0.0.1:${server.port}/0`;
    const error = await (await open(url)).command('ping').catch((thrown: unknown) => thrown);
    expect(error).toMatchObject({
      code: 'ERR_BROKER_UNAVAILABLE',
      message: expect.stringMatching(/redis:\/\/:\*\*\*@127.0.0.1:\d+\/0 .*ECONNREFUSED/) as string,
    });
  });

  it('reports a wrong password, and does not keep it in the error', async () => {
    const server = await own(['--requirepass', 'right']);
    const url = `redis://:hunter2@127.0.0.1:${server.port}/0`;
    const connection = await open(url);
    for (const _ of [1, 2]) {
      const error = await connection.command('ping').catch((thrown: unknown) => thrown);
      expect(error).toMatchObject({
        code: 'ERR_BROKER_UNAVAILABLE',
        hint: expect.stringContaining('password') as string,
      });
      const { message, cause } = error as Error;
      expect(JSON.stringify([message, cause, Object.entries(cause as object)])).not.toContain(
        'hunter2',
      );
    }
    await expect((await open(server.url)).command('get', 'a')).rejects.toMatchObject({
      code: 'ERR_BROKER_UNAVAILABLE',
      hint: expect.stringContaining('password') as string,
    });
    const right = await open(server.url.replace('//', '//:right@'));
    expect(await right.command('ping')).toEqual(Buffer.from('PONG'));
  });

  it('reports a database that does not exist, and writes nothing to another', async () => {
    const server = await own(['--databases', '2']);
    const connection = await open(`redis://127.0.0.1:${server.port}/7`);
    for (const _ of [1, 2, 3]) {
      await expect(connection.command('set', 'stray', '1')).rejects.toMatchObject({
        code: 'ERR_BROKER_UNAVAILABLE',
        hint: expect.stringContaining('database') as string,
      });
    }
    expect(await (await open(server.url)).command('dbsize')).toBe(0);
  });

  it('reports an unreachable ledger as an unavailable store', async () => {
    const server = await own();
    await server.stop();
    await expect((await open(server.url, 'ledger')).command('ping')).rejects.toMatchObject({
      code: 'ERR_STORE_UNAVAILABLE',
    });
  });

  it('still runs scripts that allow it when memory is full', async () => {
    const server = await own(['--maxmemory-policy', 'noeviction']);
    const connection = await open(server.url);
    await connection.command('set', 'ballast', Buffer.alloc(4_000_000));
    await connection.command('config', 'set', 'maxmemory', '2000000');
    const refusable = script(`#!lua\nreturn redis.call('INCR', KEYS[1])`);
    await expect(connection.script(refusable, ['key'], [])).rejects.toMatchObject({
      code: 'ERR_BROKER_UNAVAILABLE',
      hint: expect.stringContaining('memory') as string,
    });
    expect(await connection.script(COUNT, ['key'], [])).toBe(1);
  });

  it('reports that it was closed', async () => {
    const connection = await open(redisUrl());
    await connection.command('ping');
    connection.close();
    await expect(connection.command('ping')).rejects.toMatchObject({
      code: 'ERR_BROKER_UNAVAILABLE',
    });
  });
});

describe('TLS', () => {
  it('is verified: an unknown authority is refused, the named one accepted', async () => {
    const folder = (await own()).folder;
    const file = (name: string): string => join(folder, name);
    const subject = ['-subj', '/CN=localhost', '-addext', 'subjectAltName=DNS:localhost'];
    const key = ['-newkey', 'rsa:2048', '-nodes', '-keyout', file('key.pem')];
    const out = ['-out', file('cert.pem'), '-days', '1'];
    execFileSync('openssl', ['req', '-x509', ...key, ...out, ...subject], { stdio: 'ignore' });
    const files = ['--tls-cert-file', file('cert.pem'), '--tls-key-file', file('key.pem')];
    const port = await freePort();
    await own([...files, '--tls-port', String(port), '--tls-auth-clients', 'no']);
    await expect((await open(`rediss://localhost:${port}`)).command('ping')).rejects.toMatchObject({
      code: 'ERR_BROKER_UNAVAILABLE',
      message: expect.stringContaining('self-signed') as string,
    });
    const trusted = `ssl_ca_certs=${encodeURIComponent(file('cert.pem'))}`;
    const connection = await open(`rediss://localhost:${port}?${trusted}`);
    expect(await connection.command('ping')).toEqual(Buffer.from('PONG'));
    await expect(
      (await open(`rediss://127.0.0.1:${port}?${trusted}`)).command('ping'),
    ).rejects.toMatchObject({ code: 'ERR_BROKER_UNAVAILABLE' });
  });
});
