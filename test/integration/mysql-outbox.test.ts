import { spawnSync } from 'node:child_process';
import { cpSync, mkdirSync, mkdtempSync, rmSync, symlinkSync } from 'node:fs';
import { connect, createServer, type AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from 'vitest';
import type { PoolConnection } from 'mysql2/promise';
import { fromMysql2 } from '../../dist/adapters/transactions/mysql2.js';
import { fromPg } from '../../dist/adapters/transactions/pg.js';
import { createAdmin } from '../../dist/admin/index.js';
import {
  createOutlast,
  startRelay,
  startWorker,
  task,
  unchecked,
  type Outlast,
} from '../../dist/index.js';
import {
  migratedDatabase,
  migratedMariadb,
  until,
  type MigratedDatabase,
  type MigratedMariadb,
} from '../support/database.ts';
import { mariadbUrl, withMariadb } from '../support/servers.ts';

const ROOT = fileURLToPath(new URL('../../', import.meta.url));
const echo = task('mysql.echo', { input: unchecked<unknown>(), result: unchecked<unknown>() });

let main: MigratedDatabase;
let crm: MigratedMariadb;
let config: { database: string; outboxes: { crm: { database: string } } };
let producer: Outlast<PoolConnection>;

beforeAll(async () => {
  [main, crm] = [await migratedDatabase('main'), await migratedMariadb('crm')];
  await crm.pool.query('create table customers (id varchar(64) primary key)');
  config = { database: main.url, outboxes: { crm: { database: crm.url } } };
  producer = createOutlast({ ...config, outbox: 'crm', adapter: fromMysql2(crm.pool) });
});

afterAll(async () => {
  await producer.close();
  await main.dispose();
  await crm.dispose();
});

const rowsOf = async (text: string, values: unknown[] = []): Promise<Record<string, unknown>[]> =>
  (await crm.pool.query(text, values))[0] as Record<string, unknown>[];

describe('an outbox in MariaDB', () => {
  it('commits with the data there, is relayed here, and its result is found from there', async () => {
    const input = { nul: 'a\u0000b', big: 2n ** 70n, text: '😀 ü' };
    const sent = await producer.transaction(async tx => {
      await tx.query(`insert into customers values ('1')`);
      return await producer.send(tx, echo, input);
    });
    expect(await sent.state()).toBe('pending');
    const outlast = createOutlast(config);
    const relay = await startRelay(producer);
    const worker = await startWorker(outlast, { tasks: [outlast.handler(echo, value => value)] });
    expect(await sent.result()).toEqual(input);
    await until(async () => (await rowsOf('select 1 from outlast_outbox')).length === 0);
    await relay.stop();
    await worker.stop();
    await outlast.close();
    expect(await rowsOf('select 1 from outlast_relay')).toEqual([]);
  });

  it('never shows rolled-back rows', async () => {
    const relay = await startRelay(producer);
    let id = '';
    const rolledBack = producer.transaction(async tx => {
      id = (await producer.send(tx, echo, 1)).id;
      throw new Error('no customer after all');
    });
    await expect(rolledBack).rejects.toThrow('no customer after all');
    const next = await producer.transaction(tx => producer.send(tx, echo, 2));
    await until(async () => (await next.state()) === 'waiting');
    expect(await producer.find(echo, id).state()).toBe('unknown');
    await relay.stop();
  });

  it('has its own transactions for applications without an adapter', async () => {
    const own = createOutlast({ ...config, outbox: 'crm' });
    onTestFinished(() => own.close());
    const sent = await own.transaction(async tx => {
      await tx.query('insert into customers values (?)', ['own']);
      return await own.send(tx, echo, 3);
    });
    expect(await sent.state()).toBe('pending');
    const gone = own.transaction(async tx => {
      await tx.query('insert into customers values (?)', ['gone']);
      await own.send(tx, echo, 4);
      throw new Error('not after all');
    });
    await expect(gone).rejects.toThrow('not after all');
    expect(await rowsOf(`select id from customers where id in ('own', 'gone')`)).toEqual([
      { id: 'own' },
    ]);
  });

  it('lists its dead letters, and revives them', async () => {
    const sent = await producer.transaction(tx => producer.send(tx, echo, 5));
    await rowsOf(
      `insert into outlast_dead_letter (task_id, version, task_name, queue, priority, args, kwargs, embed, options, digest,
         schema_version, payload_version, retries, failure_reason, error_history, created_at, dead_at, row_id)
       select task_id, 1, task_name, queue, priority, args, kwargs, embed, options, digest, schema_version, payload_version,
         5, 'no such exchange', '', created_at, utc_timestamp(6), id from outlast_outbox where task_id = ?`,
      [sent.id],
    );
    await rowsOf('delete from outlast_outbox where task_id = ?', [sent.id]);
    expect(await sent.state()).toBe('dead');
    await expect(sent.result()).rejects.toMatchObject({ code: 'ERR_TASK_FAILED' });
    const admin = createAdmin(producer);
    expect((await admin.stats()).dlqCount).toBe(1);
    expect(await admin.deadLetters.show(sent.id)).toMatchObject({ error: 'no such exchange' });
    expect(await admin.deadLetters.retry(sent.id)).toBe('ok');
    expect(await sent.state()).toBe('pending');
  });

  it('has a door although the ledger is elsewhere: the fence is stored beside the effect', async () => {
    const outlast = createOutlast(config);
    const elsewhere = task('mysql.elsewhere', { queue: 'elsewhere', result: unchecked<string>() });
    const handler = producer.handler(elsewhere, (_, ctx) => ctx.transaction(async () => ctx.id));
    const worker = await startWorker(outlast, { tasks: [handler], queues: ['elsewhere'] });
    const sent = await outlast.push(elsewhere);
    expect(await sent.result()).toBe(sent.id);
    const fences = await rowsOf('select task_id from outlast_fence where task_id = ?', [sent.id]);
    expect(fences).toHaveLength(1);
    await worker.stop();
    await outlast.close();
  });

  it('refuses the adapter of another kind of database, and the other way round', () => {
    const refused = expect.objectContaining({
      code: 'ERR_CONFIG_TIER',
      option: 'adapter',
    }) as Error;
    expect(() => createOutlast({ ...config, adapter: fromMysql2(crm.pool) })).toThrow(refused);
    expect(() => createOutlast({ ...config, outbox: 'crm', adapter: fromPg(main.pool) })).toThrow(
      refused,
    );
    expect(() => producer.via(fromPg(main.pool))).toThrow(refused);
  });
});

describe('a database that is not set up', () => {
  const on = (url: string): Outlast => {
    const outlast = createOutlast({
      database: main.url,
      outboxes: { crm: { database: url } },
      outbox: 'crm',
    });
    onTestFinished(() => outlast.close());
    return outlast;
  };
  const send = async (outlast: Outlast): Promise<unknown> =>
    await outlast.transaction(tx => outlast.send(tx, echo, 1));

  it('and has no tables: the error names the migration', async () => {
    const bare = await withMariadb('bare');
    onTestFinished(() => bare.drop());
    const outlast = on(bare.url);
    await expect(send(outlast)).rejects.toMatchObject({ code: 'ERR_SCHEMA_MISSING' });
    const relay = await startRelay(outlast);
    await expect(relay.finished).rejects.toMatchObject({ code: 'ERR_SCHEMA_MISSING' });
  });

  it('and has no tables in the transaction of a library: the same error', async () => {
    const bare = await withMariadb('bare');
    onTestFinished(() => bare.drop());
    const pool = (await import('mysql2/promise')).createPool(bare.url);
    onTestFinished(() => pool.end());
    const outlast = createOutlast({
      database: main.url,
      outboxes: { crm: { database: bare.url } },
      outbox: 'crm',
      adapter: fromMysql2(pool),
    });
    onTestFinished(() => outlast.close());
    await expect(outlast.transaction(tx => outlast.send(tx, echo, 1))).rejects.toMatchObject({
      code: 'ERR_SCHEMA_MISSING',
    });
  });

  it('and is unreachable, or does not know the user or the database: the store is unavailable', async () => {
    const wrong = new URL(mariadbUrl());
    wrong.pathname = '/nowhere';
    const stranger = new URL(mariadbUrl());
    stranger.username = 'stranger';
    stranger.password = 'hunter2';
    for (const url of ['mysql://root@127.0.0.1:1/none', wrong.href, stranger.href]) {
      const error = await send(on(url)).catch((thrown: unknown) => thrown);
      expect(error).toMatchObject({ code: 'ERR_STORE_UNAVAILABLE' });
      expect(JSON.stringify(error)).not.toContain('hunter2');
    }
  });

  it('and whose driver is missing: the error shows the install command', () => {
    const folder = mkdtempSync(join(tmpdir(), 'outlast-driverless-'));
    onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
    cpSync(join(ROOT, 'dist'), join(folder, 'dist'), { recursive: true });
    cpSync(join(ROOT, 'package.json'), join(folder, 'package.json'));
    mkdirSync(join(folder, 'node_modules'));
    const lossless = 'node_modules/lossless-json';
    symlinkSync(join(ROOT, lossless), join(folder, lossless));
    const code = `
      import { createOutlast, task } from './dist/index.js';
      const outlast = createOutlast({ database: 'postgres://nobody@127.0.0.1:1/none',
        outboxes: { crm: { database: 'mysql://nobody@127.0.0.1:1/none' } }, outbox: 'crm' });
      const error = await outlast.transaction(tx => outlast.send(tx, task('x'))).catch(thrown => thrown);
      console.log(error.name, error.code, error.install);`;
    const { stdout } = spawnSync(process.execPath, ['--input-type=module', '-e', code], {
      cwd: folder,
      encoding: 'utf8',
    });
    expect(stdout).toBe('ConfigError ERR_DRIVER_MISSING npm i mysql2\n');
  });

  it('and has no SKIP LOCKED is refused at once', async () => {
    const proxy = await oldServer();
    onTestFinished(() => proxy.close());
    const error = await send(on(proxy.url)).catch((thrown: unknown) => thrown);
    expect(error).toMatchObject({ code: 'ERR_CONFIG_TIER' });
    expect((error as Error).message).toMatch(/MariaDB 10\.05\..*no SKIP LOCKED/);
  });
});

/** The real server, which reports an older version than it has. */
async function oldServer(): Promise<{ readonly url: string; close(): void }> {
  const real = new URL(mariadbUrl());
  const server = createServer(client => {
    const upstream = connect(Number(real.port), real.hostname);
    client.pipe(upstream);
    upstream.on('data', data =>
      client.write(
        Buffer.from(data.toString('latin1').replaceAll(/\b10\.1\d\./g, '10.05.'), 'latin1'),
      ),
    );
    for (const socket of [client, upstream]) {
      socket.on('error', () => undefined);
      socket.on('close', () => {
        client.destroy();
        upstream.destroy();
      });
    }
  });
  await new Promise<void>(resolve => server.listen(0, '127.0.0.1', resolve));
  const url = new URL(crm.url);
  url.port = String((server.address() as AddressInfo).port);
  return { url: url.href, close: () => void server.close() };
}
