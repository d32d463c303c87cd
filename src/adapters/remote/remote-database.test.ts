import { connect, createServer, type AddressInfo } from 'node:net';
import { deserialize, serialize } from 'node:v8';
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from 'vitest';
import type { Clock } from '../../runtime/runtime.ts';
import type { PostgresDatabase } from '../postgres/postgres-database.ts';
import { FrameReader } from './frame.ts';
import { openRemoteDatabase, type EndpointSource } from './remote-database.ts';
import { serveDatabase, type ServeOptions, type ServedDatabase } from './remote-server.ts';
import { openEmbeddedDatabase } from '../../../test/support/embedded.ts';

const UNAVAILABLE = { name: 'UnavailableError', code: 'ERR_STORE_UNAVAILABLE' };

describe('a database over the socket', () => {
  let db: PostgresDatabase;
  let tables = 0;

  beforeAll(async () => {
    db = await openEmbeddedDatabase();
  });
  afterAll(async () => {
    await db.close();
  });

  async function serve(options?: ServeOptions, served = db): Promise<ServedDatabase> {
    const server = await serveDatabase(served, options);
    onTestFinished(() => server.close());
    return server;
  }

  function open(source: EndpointSource): PostgresDatabase {
    const remote = openRemoteDatabase(source);
    onTestFinished(() => remote.close());
    return remote;
  }

  async function setup(): Promise<{
    server: ServedDatabase;
    remote: PostgresDatabase;
    table: string;
  }> {
    const server = await serve();
    const table = `t${++tables}`;
    await db.query(`create table ${table} (id int primary key)`);
    return { server, remote: open(server), table };
  }

  async function idsOf(table: string): Promise<unknown[]> {
    const rows = await db.query(`select id from ${table} order by id`, []);
    return rows.map(row => row['id']);
  }

  it('keeps bytes, NUL and 0xff among them, in both directions', async () => {
    const { remote } = await setup();
    const bytes = Uint8Array.from({ length: 300 }, (_, i) => i % 256);
    const [row] = await remote.query('select $1::bytea as b, $2::text as t, $3::int8 as n', [
      bytes,
      'snow ☃',
      '9007199254740993',
    ]);
    expect(row).toStrictEqual({ b: bytes, t: 'snow ☃', n: '9007199254740993' });
  });

  it('takes arrays with nulls', async () => {
    const { remote } = await setup();
    const rows = await remote.query('select * from unnest($1::text[], $2::bytea[]) as u(a, b)', [
      ['x', null],
      [null, Buffer.from([0, 255])],
    ]);
    expect(rows).toEqual([
      { a: 'x', b: null },
      { a: null, b: Uint8Array.of(0, 255) },
    ]);
  });

  it('carries a megabyte and more in one statement', async () => {
    const { remote } = await setup();
    const bytes = new Uint8Array(3 * 1024 * 1024).fill(0xa5);
    const [row] = await remote.query('select $1::bytea as b', [bytes]);
    expect(Buffer.compare(row?.['b'] as Uint8Array, bytes)).toBe(0);
  });

  it('gives each of many concurrent queries its own answer', async () => {
    const { remote } = await setup();
    const numbers = Array.from({ length: 400 }, (_, i) => i);
    const answers = await Promise.all(
      numbers.map(async n => (await remote.query('select $1::int as n', [n]))[0]?.['n']),
    );
    expect(answers).toEqual(numbers);
  });

  it('runs several commands when there are no parameters', async () => {
    const { remote } = await setup();
    expect(await remote.query('select 1 as a; select 2 as b')).toEqual([{ b: 2 }]);
  });

  it('commits a transaction and returns the value of its function', async () => {
    const { remote, table } = await setup();
    const value = await remote.transaction(async tx => {
      await tx.query(`insert into ${table} values ($1)`, [1]);
      return 'done';
    });
    expect(value).toBe('done');
    expect(await idsOf(table)).toEqual([1]);
  });

  it('rolls back a transaction whose function throws, and rethrows the same error', async () => {
    const { remote, table } = await setup();
    const error = new Error('mine');
    const failing = remote.transaction(async tx => {
      await tx.query(`insert into ${table} values (1)`);
      throw error;
    });
    await expect(failing).rejects.toBe(error);
    expect(await idsOf(table)).toEqual([]);
  });

  it('isolates the transactions of two clients', async () => {
    const { server, remote, table } = await setup();
    const other = open(server);
    const order: string[] = [];
    let outer: Promise<unknown> = Promise.resolve();
    const failing = remote.transaction(async tx => {
      await tx.query(`insert into ${table} values (1)`);
      outer = other
        .transaction(tx2 => tx2.query(`insert into ${table} values (2)`))
        .then(() => order.push('other'));
      await tx.query(`insert into ${table} values (3)`);
      order.push('first');
      throw new Error('roll back');
    });
    await expect(failing).rejects.toThrow('roll back');
    await outer;
    expect(order).toEqual(['first', 'other']);
    expect(await idsOf(table)).toEqual([2]);
  });

  it('does not block a transaction of a client that sends more queries than fit', async () => {
    const { remote, table } = await setup();
    let outside: Promise<unknown> = Promise.resolve();
    await remote.transaction(async tx => {
      outside = Promise.all(Array.from({ length: 600 }, () => remote.query('select 1', [])));
      await tx.query(`insert into ${table} values (1)`);
    });
    await outside;
    expect(await idsOf(table)).toEqual([1]);
  });

  it('refuses a statement of a transaction that has ended', async () => {
    const { remote, table } = await setup();
    let leaked: PostgresDatabase['query'] = remote.query.bind(remote);
    await remote.transaction(async tx => {
      leaked = tx.query.bind(tx);
      await tx.query('select 1');
    });
    await expect(leaked(`insert into ${table} values (1)`)).rejects.toMatchObject(UNAVAILABLE);
    expect(await idsOf(table)).toEqual([]);
  });

  it('keeps SQLSTATE and constraint of an error, and drops the parameters', async () => {
    const { remote, table } = await setup();
    await remote.query(`insert into ${table} values (1)`);
    const error: unknown = await remote
      .query(`insert into ${table} values ($1)`, [1])
      .catch((caught: unknown) => caught);
    expect(error).toBeInstanceOf(Error);
    expect(error).toMatchObject({ code: '23505', constraint: `${table}_pkey`, table });
    expect(error).not.toHaveProperty('params');
  });

  it('keeps the family, code and fields of an Outlast error', async () => {
    const served: PostgresDatabase = {
      ...stubDatabase(),
      query: () => db.listen('A', () => 0) as never,
    };
    const remote = open(await serve({}, served));
    await expect(remote.query('select 1')).rejects.toMatchObject({
      name: 'UsageError',
      code: 'ERR_NAME_UNSAFE',
      what: 'channel',
    });
  });

  it('refuses a wrong token', async () => {
    const { port } = await serve();
    const remote = open({ port, token: '00'.repeat(32) });
    await expect(remote.query('select 1')).rejects.toMatchObject(UNAVAILABLE);
  });

  it('closes a connection that does not send the token first', async () => {
    const { port } = await serve();
    const received = await sendBytes(port, frame(Buffer.from('{"op":"query","text":"select 1"}')));
    expect(received.byteLength).toBe(0);
  });

  it('closes the connection on a frame that is too large, before reading it', async () => {
    const { port, token } = await serve({ maxFrameBytes: 1000 });
    const header = Buffer.alloc(4);
    header.writeUInt32BE(1001);
    const received = await sendBytes(
      port,
      Buffer.concat([frame(Buffer.from(token, 'hex')), header]),
    );
    expect(received.byteLength).toBeLessThan(100);
  });

  it('refuses to send a statement that is too large and stays connected', async () => {
    const { remote } = await setup();
    const huge = new Uint8Array(64 * 1024 * 1024);
    await expect(remote.query('select $1::bytea', [huge])).rejects.toMatchObject({
      code: 'ERR_PAYLOAD_TOO_LARGE',
    });
    expect(await remote.query('select 1 as one')).toEqual([{ one: 1 }]);
  });

  it('reports a reply that is too large and stays connected', async () => {
    const server = await serve({ maxFrameBytes: 1000 });
    const remote = open(server);
    const large = remote.query(`select repeat('x', 2000)`);
    await expect(large).rejects.toMatchObject({ code: 'ERR_PAYLOAD_TOO_LARGE', maxBytes: 1000 });
    expect(await remote.query('select 1 as one')).toEqual([{ one: 1 }]);
  });

  it('rejects running calls when the server closes, and every later call at once', async () => {
    const started = signal();
    const served: PostgresDatabase = {
      ...stubDatabase(),
      query: () => {
        started.give();
        return new Promise(() => undefined);
      },
    };
    const server = await serve({}, served);
    const remote = open(server);
    const pending = Promise.allSettled([remote.query('one'), remote.query('two')]);
    await started.given;
    await server.close();
    for (const outcome of await pending) {
      expect(outcome).toMatchObject({ status: 'rejected', reason: UNAVAILABLE });
    }
    await expect(remote.query('three')).rejects.toMatchObject(UNAVAILABLE);
    await expect(remote.transaction(tx => tx.query('four'))).rejects.toMatchObject(UNAVAILABLE);
  });

  it('rolls back the open transactions of its clients when the server closes', async () => {
    const { server, remote, table } = await setup();
    const cut = remote.transaction(async tx => {
      await tx.query(`insert into ${table} values (1)`);
      await server.close();
      await tx.query(`insert into ${table} values (2)`);
    });
    await expect(cut).rejects.toMatchObject(UNAVAILABLE);
    expect(await idsOf(table)).toEqual([]);
  });

  it('gives up on a server that sends no greeting', async () => {
    const clock = new ManualClock();
    const mute = createServer(() => clock.fireAll()).listen(0, '127.0.0.1');
    onTestFinished(() => void mute.close());
    await new Promise(resolve => mute.once('listening', resolve));
    const { port } = mute.address() as AddressInfo;
    const remote = openRemoteDatabase({ port, token: '' }, { clock });
    await expect(remote.query('select 1')).rejects.toMatchObject(UNAVAILABLE);
  });

  it('gives up on a server that does not answer, and rejects all calls that wait for it', async () => {
    const clock = new ManualClock();
    const query = (text: string): Promise<never> => {
      if (text === 'second') clock.fireAll();
      return new Promise(() => undefined);
    };
    const remote = openRemoteDatabase(await serve({}, { ...stubDatabase(), query }), { clock });
    const outcomes = await Promise.allSettled([remote.query('first'), remote.query('second')]);
    for (const outcome of outcomes) expect(outcome).toMatchObject({ reason: UNAVAILABLE });
  });

  it('ends a transaction whose function hangs at its time limit', async () => {
    const { server, table } = await setup();
    const clock = new ManualClock();
    const remote = openRemoteDatabase(server, { clock });
    onTestFinished(() => remote.close());
    const hanging = remote.transaction(async tx => {
      await tx.query(`insert into ${table} values (1)`);
      clock.fireAll();
      await new Promise(() => undefined);
    });
    await expect(hanging).rejects.toMatchObject(UNAVAILABLE);
    expect(await idsOf(table)).toEqual([]);
  });

  it('runs no more statements for a client that leaves replies unread, until it reads them', async () => {
    let asked = 0;
    const query = (): Promise<[{ text: string }]> => {
      asked++;
      return Promise.resolve([{ text: 'x'.repeat(512 * 1024) }]);
    };
    const server = await serve({}, { ...stubDatabase(), query });
    const requests = Array.from({ length: 200 }, (_, id) =>
      frame(serialize({ id, op: 'query', text: '', params: [], tx: null })),
    );
    const lazy = connect(server.port, '127.0.0.1').pause();
    onTestFinished(() => void lazy.destroy());
    lazy.write(Buffer.concat([frame(Buffer.from(server.token, 'hex')), ...requests]));
    const eager = open(server);
    for (let i = 0; i < 50; i++) await eager.query('');
    expect(asked).toBeLessThan(50 + 100);

    const ids = new Set<unknown>();
    const reader = new FrameReader(64 * 1024 * 1024);
    for await (const chunk of lazy) {
      for (const reply of reader.read(chunk as Buffer)) {
        ids.add((deserialize(reply) as { id?: number }).id);
      }
      // The greeting has none.
      if (ids.size === 1 + requests.length) break;
    }
    expect(asked).toBe(50 + requests.length);
  });

  it('reconnects by itself, to the current address of the server', async () => {
    let server = await serve();
    const remote = open(() => Promise.resolve(server));
    await remote.query('select 1');
    await server.close();
    server = await serve();
    // The first call may still find the old connection half closed.
    await remote.query('select 1').catch(() => undefined);
    expect(await remote.query('select 2 as two')).toEqual([{ two: 2 }]);
  });

  it('calls the listener when listening begins and on every NOTIFY', async () => {
    const { remote } = await setup();
    const calls = counter();
    remote.listen('news', calls.count);
    await calls.reached(1);
    await db.query('notify news');
    await calls.reached(2);
    await remote.query('notify news');
    await calls.reached(3);
  });

  it('calls every listener of a channel until that listener unsubscribes', async () => {
    const { remote } = await setup();
    const [one, two] = [counter(), counter()];
    const undo = remote.listen('news', one.count);
    remote.listen('news', two.count);
    await one.reached(1);
    await two.reached(1);
    undo();
    await db.query('notify news');
    await two.reached(2);
    expect(one.value()).toBe(1);
  });

  it('calls the listener when the connection is lost, and listens again after the next call has connected', async () => {
    let server = await serve();
    const remote = open(() => Promise.resolve(server));
    const calls = counter();
    remote.listen('news', calls.count);
    await calls.reached(1);
    const old = server;
    server = await serve();
    await old.close();
    await calls.reached(2);
    await remote.query('select 1');
    await calls.reached(3);
    await db.query('notify news');
    await calls.reached(4);
  });

  it('finishes running calls when it is closed, and refuses later ones', async () => {
    const { remote, table } = await setup();
    const running = remote.query(`insert into ${table} values (1)`);
    await remote.close();
    await running;
    await expect(remote.query('select 1')).rejects.toMatchObject(UNAVAILABLE);
    expect(await idsOf(table)).toEqual([1]);
  });
});

/** Time that the test moves. */
class ManualClock implements Clock {
  readonly #timers = new Set<() => void>();
  now = (): number => 0;
  monotonic = (): number => 0;
  timer = (_ms: number, fn: () => void): (() => void) => {
    this.#timers.add(fn);
    return () => this.#timers.delete(fn);
  };
  fireAll(): void {
    for (const fn of this.#timers) fn();
  }
}

function stubDatabase(): PostgresDatabase {
  return {
    query: () => Promise.resolve([]),
    transaction: () => Promise.reject(new Error('not in this test')),
    listen: () => () => undefined,
    close: () => Promise.resolve(),
  };
}

function frame(payload: Buffer): Buffer {
  const header = Buffer.alloc(4);
  header.writeUInt32BE(payload.byteLength);
  return Buffer.concat([header, payload]);
}

/** Sends bytes and resolves with everything received until the server closed the connection. */
function sendBytes(port: number, bytes: Buffer): Promise<Buffer> {
  return new Promise(resolve => {
    const received: Buffer[] = [];
    const socket = connect(port, '127.0.0.1', () => socket.write(bytes));
    socket.on('data', (chunk: Buffer) => received.push(chunk));
    socket.on('error', () => undefined);
    socket.on('close', () => resolve(Buffer.concat(received)));
  });
}

interface Signal {
  readonly given: Promise<void>;
  readonly give: () => void;
}

function signal(): Signal {
  let give: () => void = () => undefined;
  const given = new Promise<void>(resolve => (give = resolve));
  return { given, give };
}

interface Counter {
  readonly count: () => void;
  readonly value: () => number;
  /** Resolves when it has been counted that often. */
  readonly reached: (value: number) => Promise<void>;
}

function counter(): Counter {
  let value = 0;
  let waiting: { readonly value: number; readonly give: () => void } | undefined;
  const count = (): void => {
    value++;
    if (waiting !== undefined && value >= waiting.value) waiting.give();
  };
  const reached = async (wanted: number): Promise<void> => {
    if (value >= wanted) return;
    const { given, give } = signal();
    waiting = { value: wanted, give };
    await given;
  };
  return { count, value: () => value, reached };
}
