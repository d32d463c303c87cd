import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { z } from 'zod';
import type { PoolClient } from 'pg';
import { fromPg } from '../../src/adapters/transactions/pg.ts';
import { isOutlastError } from '../../src/errors/error.ts';
import { EMBED } from '../../src/task/signature.ts';
import { task, type Task } from '../../src/task/define-task.ts';
import { unchecked } from '../../src/task/standard-schema.ts';
import { chain, chord, group } from '../../src/task/workflow.ts';
import { createOutlast } from '../../src/app/create-outlast.ts';
import { CONTEXT, type Outlast } from '../../src/app/outlast.ts';
import { migratedDatabase, type MigratedDatabase } from '../support/database.ts';
import { withDatabase } from '../support/servers.ts';

let database: MigratedDatabase;
let outlast: Outlast<PoolClient>;

const anything = task('send.anything', { input: unchecked<unknown>() }) as Task<{
  input: unknown;
  parsed: unknown;
  returned: void;
  result: void;
}>;
const order = task('send.order', {
  input: z.object({ orderId: z.string(), lines: z.array(z.object({ n: z.number() })).optional() }),
});
const nightly = task('send.nightly');

beforeAll(async () => {
  database = await migratedDatabase('send');
  await database.pool.query('create table orders (id text primary key)');
  outlast = createOutlast({ database: database.url, adapter: fromPg(database.pool) });
});

afterAll(async () => {
  await outlast.close();
  await database.dispose();
});

/** Runs `fn` in a transaction that is committed even if `fn` throws, to see whether it was harmed. */
async function inTransaction<T>(fn: (client: PoolClient) => Promise<T>): Promise<T | Error> {
  const client = await database.pool.connect();
  try {
    await client.query('BEGIN');
    const answer = await fn(client).catch((error: unknown) => error as Error);
    await client.query('COMMIT');
    return answer;
  } finally {
    client.release();
  }
}

const rowsOf = async (id: string): Promise<number> =>
  (await database.pool.query('select 1 from outlast_task where id = $1', [id])).rowCount ?? 0;

const countRows = async (): Promise<number> =>
  Number(
    (await database.pool.query<{ n: string }>('select count(*) as n from outlast_task')).rows[0]?.n,
  );

describe('a send', () => {
  it('appears with its data when the transaction commits', async () => {
    const sent = await outlast.transaction(async tx => {
      await tx.query('insert into orders (id) values ($1)', ['kept']);
      return await outlast.send(tx, order, { orderId: 'kept' });
    });
    expect(await rowsOf(sent.id)).toBe(1);
    expect(await sent.state()).toBe('waiting');
    expect(sent.isNew).toBe(true);
  });

  it('never appears when the transaction is rolled back', async () => {
    let id = '';
    const rolledBack = outlast.transaction(async tx => {
      id = (await outlast.send(tx, order, { orderId: 'gone' })).id;
      throw new Error('no order after all');
    });
    await expect(rolledBack).rejects.toThrow('no order after all');
    expect(await rowsOf(id)).toBe(0);
  });

  it('is one statement for up to a thousand rows, one more for all ordering keys, and one for all chords', async () => {
    const statements: string[] = [];
    const adapter = fromPg(database.pool);
    const counted = createOutlast({
      database: database.url,
      adapter: {
        ...adapter,
        execute: (tx, text, values) => {
          statements.push(text);
          return adapter.execute(tx, text, values);
        },
        executeKept: (tx, text, values) => {
          statements.push(text);
          return adapter.execute(tx, text, values);
        },
      },
    });
    // Rolled back: the rows are not needed.
    const count = async (send: (tx: PoolClient) => Promise<unknown>): Promise<number> => {
      statements.length = 0;
      const counting = counted.transaction(async tx => {
        await send(tx);
        throw new Error('counted');
      });
      await expect(counting).rejects.toThrow('counted');
      return statements.length;
    };
    const many = (n: number, options = {}) =>
      Array.from({ length: n }, (_, at) => anything.with(at, options));
    // The first send of an instance also marks its transaction, and checks that this is the configured database.
    expect(await count(tx => counted.send(tx, nightly))).toBe(3);
    expect(await count(tx => counted.send(tx, nightly))).toBe(1);
    expect(await count(tx => counted.sendMany(tx, many(1_000)))).toBe(1);
    // A send of several statements also marks the transaction that was open when it was called.
    expect(await count(tx => counted.sendMany(tx, many(1_001)))).toBe(3);
    expect(await count(tx => counted.sendMany(tx, many(2_500, { orderingKey: 'k' })))).toBe(5);
    expect(
      await count(tx =>
        counted.sendMany(tx, [
          chain(nightly.with(), nightly),
          group(many(300)),
          chord(many(300), nightly),
        ]),
      ),
    ).toBe(2);
    await counted.close();
  });

  it('returns a handle that is not thenable', async () => {
    const sent = await outlast.transaction(tx => outlast.send(tx, nightly));
    expect('then' in sent).toBe(false);
  });

  it('reports that a result cannot exist before the commit', async () => {
    const answer = await inTransaction(
      async client => await (await outlast.send(client, nightly)).result(),
    );
    expect(isOutlastError(answer, 'ERR_RESULT_BEFORE_COMMIT')).toBe(true);
  });

  it('does not mistake a later transaction of the same connection for its own', async () => {
    const client = await database.pool.connect();
    try {
      await client.query('BEGIN');
      const [sent] = await outlast.sendMany(client, [chain(nightly.with(), nightly)]);
      await client.query('COMMIT');
      await client.query('BEGIN');
      const waiting = sent.result({ timeout: '10ms' });
      await expect(waiting).rejects.toMatchObject({
        code: 'ERR_RESULT_TIMEOUT',
        hint: expect.stringContaining('ask after COMMIT') as unknown,
      });
      const alone = await outlast.transaction(tx => outlast.send(tx, nightly));
      await expect(alone.result({ timeout: '10ms' })).rejects.toMatchObject({
        hint: expect.stringContaining(`outlast tasks why ${alone.id}`) as unknown,
      });
      await client.query('ROLLBACK');
    } finally {
      client.release();
    }
  });

  it('writes a thousand and one tasks in order, with their own handles', async () => {
    const calls = Array.from({ length: 1_001 }, (_, n) => anything.with(n));
    const handles = await outlast.transaction(tx => outlast.sendMany(tx, calls));
    expect(new Set(handles.map(handle => handle.id)).size).toBe(1_001);
    const { rows } = await database.pool.query<{ body: Buffer }>(
      'select body from outlast_task where id = any($1) order by seq',
      [handles.map(handle => handle.id)],
    );
    expect(rows.map(row => (JSON.parse(row.body.toString()) as unknown[])[0])).toEqual(
      calls.map(call => [call.input]),
    );
  });
});

describe('values', () => {
  const stored = async (input: unknown): Promise<string> => {
    const sent = await outlast.transaction(tx => outlast.send(tx, anything, input));
    const { rows } = await database.pool.query<{ body: Buffer }>(
      'select body from outlast_task where id = $1',
      [sent.id],
    );
    const body = rows[0]?.body.toString('utf8') ?? '';
    expect(body.endsWith(`,${EMBED}]`)).toBe(true);
    return body.slice(1, -EMBED.length - 2);
  };

  it('carry NUL and lone surrogates as escapes, so that they survive byte for byte', async () => {
    expect(await stored('a\u0000b\ud800c')).toBe(String.raw`["a\u0000b\ud800c"],{}`);
  });

  it('carry backslashes, NUL and other alphabets in an object, byte for byte', async () => {
    for (const text of [String.raw`\x41`, 'a\\b"c\n', '\u0000\ud800', 'žluťoučký 😀', ''])
      expect(await stored({ text })).toBe(`[],${JSON.stringify({ text })}`);
  });

  it('write a bigint as a JSON integer', async () => {
    expect(await stored({ big: 12345678901234567890n })).toBe('[],{"big":12345678901234567890}');
  });

  it('take an object as keyword arguments and anything else as the only argument', async () => {
    expect(await stored({ a: 1 })).toBe('[],{"a":1}');
    expect(await stored([1, 2])).toBe('[[1,2]],{}');
    expect(await stored(null)).toBe('[null],{}');
  });

  it('keep a key called __proto__ as data', async () => {
    expect(await stored(JSON.parse('{"__proto__": {"polluted": true}}'))).toBe(
      '[],{"__proto__":{"polluted":true}}',
    );
    expect(({} as { polluted?: boolean }).polluted).toBeUndefined();
  });
});

describe('outlast.send', () => {
  it('refuses one bad task of many before any is written', async () => {
    const before = await countRows();
    const answer = await inTransaction(client =>
      outlast.sendMany(client, [anything.with(1), anything.with(() => 1), anything.with(2)]),
    );
    expect(isOutlastError(answer, 'ERR_INPUT_NOT_JSON')).toBe(true);
    expect(await countRows()).toBe(before);
  });

  it('refuses a client that is not in a transaction', async () => {
    const client = await database.pool.connect();
    try {
      await expect(outlast.send(client, nightly)).rejects.toMatchObject({
        code: 'ERR_NOT_IN_TRANSACTION',
      });
    } finally {
      client.release();
    }
  });

  it('refuses a failed transaction', async () => {
    const client = await database.pool.connect();
    try {
      await client.query('BEGIN');
      await client.query('select * from nowhere').catch(() => undefined);
      await expect(outlast.send(client, nightly)).rejects.toMatchObject({
        code: 'ERR_NOT_IN_TRANSACTION',
      });
      await client.query('ROLLBACK');
    } finally {
      client.release();
    }
  });

  it('only warns about a missing transaction where strict is off', async () => {
    const warnings: string[] = [];
    const quiet = (): void => undefined;
    const log = {
      debug: quiet,
      info: quiet,
      error: quiet,
      warn: (_: object, text: string) => void warnings.push(text),
      child: () => log,
    };
    const lenient = createOutlast({
      database: database.url,
      adapter: fromPg(database.pool),
      strict: false,
      log,
    });
    const client = await database.pool.connect();
    try {
      expect((await lenient.send(client, nightly)).isNew).toBe(true);
    } finally {
      client.release();
      await lenient.close();
    }
    expect(warnings.join()).toContain('not in a transaction');
  });

  it('names the missing migration when the tables do not exist', async () => {
    const bare = await withDatabase('bare');
    const unmigrated = createOutlast({ database: bare.url });
    await expect(unmigrated.transaction(tx => unmigrated.send(tx, nightly))).rejects.toMatchObject({
      code: 'ERR_SCHEMA_MISSING',
      hint: 'Run: npx outlast migrate',
    });
    await unmigrated.close();
    await bare.drop();
  });

  it('distinguishes a wrong URL from an unreachable server', async () => {
    expect(() => createOutlast({ database: 'mongodb://user:secret@host/db' })).toThrow(
      expect.objectContaining({ code: 'ERR_OPTION_RANGE' }) as Error,
    );
    const away = createOutlast({ database: 'postgres://nobody@127.0.0.1:1/none' });
    await expect(away.push(nightly)).rejects.toMatchObject({ code: 'ERR_STORE_UNAVAILABLE' });
    await away.close();
  });

  it('reports that the instance is closed', async () => {
    const closed = createOutlast({ database: database.url });
    await closed.close();
    await expect(closed.push(nightly)).rejects.toMatchObject({ code: 'ERR_CLOSED' });
  });

  it('reports that a swallowed error has rolled the transaction back', async () => {
    const answer = outlast.transaction(async tx => {
      await outlast.send(tx, nightly);
      await tx.query('select * from nowhere').catch(() => undefined);
    });
    await expect(answer).rejects.toMatchObject({ code: 'ERR_NOT_IN_TRANSACTION' });
  });
});

describe('idempotency', () => {
  it('returns the first handle to a second send with the same key', async () => {
    const first = await outlast.transaction(tx =>
      outlast.send(tx, order, { orderId: '1' }, { idempotencyKey: 'key-1' }),
    );
    const second = await outlast.transaction(tx =>
      outlast.send(tx, order, { orderId: '1' }, { idempotencyKey: 'key-1' }),
    );
    expect(second).toMatchObject({ id: first.id, isNew: false });
  });

  it('refuses the same key with other input, and the transaction continues', async () => {
    await outlast.transaction(tx =>
      outlast.send(tx, order, { orderId: '1' }, { idempotencyKey: 'key-2' }),
    );
    const answer = await inTransaction(async client => {
      const refused = await outlast
        .send(client, order, { orderId: '2' }, { idempotencyKey: 'key-2' })
        .catch((error: unknown) => error);
      expect(isOutlastError(refused, 'ERR_IDEMPOTENCY_MISMATCH')).toBe(true);
      return await outlast.send(client, order, { orderId: '3' });
    });
    expect(answer).not.toBeInstanceOf(Error);
  });

  it('leaves a key free that was rolled back with its task', async () => {
    const gone = outlast.transaction(async tx => {
      await outlast.send(tx, order, { orderId: '1' }, { idempotencyKey: 'key-3' });
      throw new Error('rolled back');
    });
    await expect(gone).rejects.toThrow('rolled back');
    const sent = await outlast.transaction(tx =>
      outlast.send(tx, order, { orderId: '1' }, { idempotencyKey: 'key-3' }),
    );
    expect(sent.isNew).toBe(true);
  });

  it('treats the same id with the same input as the same task, and with other input as an error', async () => {
    const first = await outlast.transaction(tx =>
      outlast.send(tx, order, { orderId: '1' }, { id: 'my-id' }),
    );
    const second = await outlast.transaction(tx =>
      outlast.send(tx, order, { orderId: '1' }, { id: 'my-id' }),
    );
    expect([first.isNew, second.isNew]).toEqual([true, false]);
    const other = await inTransaction(client =>
      outlast.send(client, order, { orderId: '2' }, { id: 'my-id' }),
    );
    expect(isOutlastError(other, 'ERR_IDEMPOTENCY_MISMATCH')).toBe(true);
  });

  it('returns the first handle for the whole window, also when its task has left every table', async () => {
    const options = { id: 'keyed-id', idempotencyKey: 'key-5' };
    await outlast.transaction(tx => outlast.send(tx, order, { orderId: '1' }, options));
    await database.pool.query(`delete from outlast_task where id = 'keyed-id'`);
    const again = await outlast.transaction(tx =>
      outlast.send(tx, order, { orderId: '1' }, options),
    );
    expect(again).toMatchObject({ id: 'keyed-id', isNew: false });
    expect(await rowsOf('keyed-id')).toBe(0);
  });

  it('keeps the key of a task that was not begun, however long it waits', async () => {
    const options = { idempotencyKey: 'key-6', countdown: '2d' } as const;
    const first = await outlast.transaction(tx =>
      outlast.send(tx, order, { orderId: '1' }, options),
    );
    await database.pool.query(`update outlast_send_key set free_at = now() - interval '1 hour'`);
    const second = await outlast.transaction(tx =>
      outlast.send(tx, order, { orderId: '1' }, options),
    );
    expect(second).toMatchObject({ id: first.id, isNew: false });
    await first.cancel();
    const third = await outlast.transaction(tx =>
      outlast.send(tx, order, { orderId: '2' }, { idempotencyKey: 'key-6' }),
    );
    expect(third.isNew).toBe(true);
  });

  it('gives the key to one of two concurrent transactions', async () => {
    const [a, b] = await Promise.all(
      [1, 2].map(() =>
        outlast.transaction(tx =>
          outlast.send(tx, order, { orderId: '1' }, { idempotencyKey: 'key-4' }),
        ),
      ),
    );
    expect(new Set([a?.isNew, b?.isNew])).toEqual(new Set([false, true]));
    expect(a?.id).toBe(b?.id);
  });
});

describe('a row in a newer format', () => {
  it('is left alone by this version, and counted', async () => {
    const sent = await outlast.transaction(tx =>
      outlast.send(tx, nightly, undefined, { orderingKey: 'newer' }),
    );
    await database.pool.query('update outlast_outbox set schema_version = 99 where task_id = $1', [
      sent.id,
    ]);
    const stores = await outlast[CONTEXT].stores();
    while (((await stores.outbox.move?.(1_000))?.rows.length ?? 0) > 0);
    expect(await sent.state()).toBe('pending');
    expect((await stores.reads.stats(0)).outbox).toMatchObject({ pending: 1, unsupported: 1 });
    expect(await stores.outbox.nextDueMs()).toBeNull();
  });
});

describe('one id twice in a batch', () => {
  it('is one task with the same input, and an error with other input', async () => {
    const same = await outlast.transaction(tx =>
      outlast.sendMany(tx, [
        anything.with(1, { id: 'twin-1' }),
        anything.with(1, { id: 'twin-1' }),
      ]),
    );
    expect(same.map(({ isNew }) => isNew)).toEqual([true, false]);
    const other = await inTransaction(client =>
      outlast.sendMany(client, [
        anything.with(1, { id: 'twin-2' }),
        anything.with(2, { id: 'twin-2' }),
      ]),
    );
    expect(isOutlastError(other, 'ERR_IDEMPOTENCY_MISMATCH')).toBe(true);
  });
});

describe('a push', () => {
  it('with an idempotencyKey is refused with a hint to use an id, which works', async () => {
    const refused: unknown = await outlast
      .push(nightly, undefined, { idempotencyKey: 'k' })
      .catch((error: unknown) => error);
    expect(isOutlastError(refused, 'ERR_OPTIONS_CONFLICT') && refused.hint).toContain(
      'give it an `id` made of the key',
    );
    for (let i = 0; i < 2; i++) await outlast.push(nightly, undefined, { id: 'nightly-k' });
    const text = `select from outlast_task where id like 'nightly-k%'`;
    expect((await database.pool.query(text)).rowCount).toBe(1);
  });
});

describe('excludeTasks', () => {
  it('turns a send into a push that survives a rollback', async () => {
    const direct = createOutlast({
      database: database.url,
      adapter: fromPg(database.pool),
      excludeTasks: ['send.night*'],
    });
    await expect(
      direct.transaction(tx =>
        direct.sendMany(tx, [
          order.with({ orderId: 'beside' }),
          nightly.with(undefined, { idempotencyKey: 'k' }),
        ]),
      ),
    ).rejects.toMatchObject({ code: 'ERR_OPTIONS_CONFLICT', options: ['idempotencyKey'] });
    let id = '';
    const rolledBack = direct.transaction(async tx => {
      id = (await direct.send(tx, nightly)).id;
      throw new Error('rolled back');
    });
    await expect(rolledBack).rejects.toThrow('rolled back');
    expect(await direct.find(nightly, id).state()).toBe('waiting');
    await direct.close();
  });
});
