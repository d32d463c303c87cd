import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { z } from 'zod';
import type { PoolClient } from 'pg';
import { fromPg } from '../../src/adapters/transactions/pg.ts';
import { isOutlastError } from '../../src/errors/error.ts';
import type { ErrorCode } from '../../src/errors/codes.ts';
import { task, type Task } from '../../src/task/define-task.ts';
import { unchecked } from '../../src/task/standard-schema.ts';
import { chain, chord } from '../../src/task/workflow.ts';
import { createOutlast } from '../../src/app/create-outlast.ts';
import type { Outlast } from '../../src/app/outlast.ts';
import { migratedDatabase, type MigratedDatabase } from '../support/database.ts';

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
const publish = task('send.publish', {
  params: ['image', 'page'],
  input: unchecked<{ image: string; page: string }>(),
});
const brief = task('send.brief', { expires: '10m' });
const texts = task('send.texts', { result: unchecked<string>() });
const keyed = task('send.keyed', { kwargs: unchecked<{ a: number }>() });
const ordered = task('send.ordered', {
  input: unchecked<{ orderId: string }>(),
  ordering: { key: input => input.orderId },
});

beforeAll(async () => {
  database = await migratedDatabase('refused');
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

const countRows = async (): Promise<number> =>
  (await database.pool.query('select 1 from outlast_outbox union all select 1 from outlast_task'))
    .rowCount ?? 0;

const deep = (levels: number): unknown => (levels === 0 ? 1 : { in: deep(levels - 1) });
const circular: Record<string, unknown> = { name: 'loop' };
circular['self'] = circular;

interface BadInput {
  readonly what: string;
  readonly code: ErrorCode;
  readonly names: string;
  readonly send: (client: PoolClient) => Promise<unknown>;
}

const BAD_INPUT: readonly BadInput[] = [
  {
    what: 'input that fails its schema',
    code: 'ERR_INPUT_INVALID',
    names: 'lines[0].n',
    send: client =>
      outlast.send(client, order, { orderId: '1', lines: [{ n: 'x' as unknown as number }] }),
  },
  {
    what: 'input for a task that takes none',
    code: 'ERR_INPUT_INVALID',
    names: 'no input',
    send: client => outlast.send(client, nightly, { a: 1 } as unknown as undefined),
  },
  {
    what: 'a circular input',
    code: 'ERR_INPUT_NOT_JSON',
    names: 'self',
    send: client => outlast.send(client, anything, circular),
  },
  {
    what: 'a function',
    code: 'ERR_INPUT_NOT_JSON',
    names: 'a.fn',
    send: client => outlast.send(client, anything, { a: { fn: () => 1 } }),
  },
  {
    what: 'a Date',
    code: 'ERR_INPUT_NOT_JSON',
    names: 'at',
    send: client => outlast.send(client, anything, { at: new Date(0) }),
  },
  {
    what: 'a Map',
    code: 'ERR_INPUT_NOT_JSON',
    names: 'map',
    send: client => outlast.send(client, anything, { map: new Map() }),
  },
  {
    what: 'NaN',
    code: 'ERR_INPUT_NOT_JSON',
    names: 'list[1]',
    send: client => outlast.send(client, anything, { list: [1, Number.NaN] }),
  },
  {
    what: 'undefined in an array',
    code: 'ERR_INPUT_NOT_JSON',
    names: '[0]',
    send: client => outlast.send(client, anything, [undefined]),
  },
  {
    what: 'a symbol',
    code: 'ERR_INPUT_NOT_JSON',
    names: 's',
    send: client => outlast.send(client, anything, { s: Symbol('x') }),
  },
  {
    what: 'a typed array that is no bytes',
    code: 'ERR_INPUT_NOT_JSON',
    names: 'b',
    send: client => outlast.send(client, anything, { b: new Float64Array(2) }),
  },
  {
    what: 'an object with toJSON',
    code: 'ERR_INPUT_NOT_JSON',
    names: 'o',
    send: client => outlast.send(client, anything, { o: { toJSON: () => 1 } }),
  },
  {
    what: 'nesting beyond a hundred levels',
    code: 'ERR_INPUT_NOT_JSON',
    names: 'nested',
    send: client => outlast.send(client, anything, deep(101)),
  },
  {
    what: 'a payload over one MiB',
    code: 'ERR_PAYLOAD_TOO_LARGE',
    names: '1048576',
    send: client => outlast.send(client, anything, 'x'.repeat(1_100_000)),
  },
  {
    what: 'an unsafe id',
    code: 'ERR_NAME_UNSAFE',
    names: 'task id',
    send: client => outlast.send(client, nightly, undefined, { id: "x'; drop table orders; --" }),
  },
  {
    what: 'an unsafe queue',
    code: 'ERR_NAME_UNSAFE',
    names: 'queue',
    send: client => outlast.send(client, nightly, undefined, { queue: 'a{b}\n' }),
  },
  {
    what: 'a key with a control character',
    code: 'ERR_NAME_UNSAFE',
    names: 'idempotencyKey',
    send: client => outlast.send(client, nightly, undefined, { idempotencyKey: 'a\u0000' }),
  },
  {
    what: 'an unknown option',
    code: 'ERR_UNKNOWN_OPTION',
    names: 'delay',
    send: client => outlast.send(client, nightly, undefined, { delay: '1s' } as never),
  },
  {
    what: 'a countdown without a unit',
    code: 'ERR_OPTION_UNIT',
    names: 'countdown',
    send: client => outlast.send(client, nightly, undefined, { countdown: 5 as never }),
  },
  {
    what: 'countdown and eta together',
    code: 'ERR_OPTIONS_CONFLICT',
    names: 'eta',
    send: client => outlast.send(client, nightly, undefined, { countdown: '1s', eta: new Date() }),
  },
  {
    what: 'a countdown beyond the time at which it expires',
    code: 'ERR_OPTIONS_CONFLICT',
    names: 'never begin',
    send: client => outlast.send(client, nightly, undefined, { countdown: '1h', expires: '10m' }),
  },
  {
    what: 'an eta beyond the time at which its contract expires',
    code: 'ERR_OPTIONS_CONFLICT',
    names: 'never begin',
    send: client =>
      outlast.send(client, brief, undefined, { eta: new Date(Date.now() + 3_600_000) }),
  },
  {
    what: 'an eta that is no time',
    code: 'ERR_OPTION_RANGE',
    names: 'eta',
    send: client => outlast.send(client, nightly, undefined, { eta: new Date('never') }),
  },
  {
    what: 'a countdown beyond a hundred years',
    code: 'ERR_OPTION_RANGE',
    names: 'countdown',
    send: client => outlast.send(client, nightly, undefined, { countdown: '999999999999d' }),
  },
  {
    what: 'an eta before the year 1',
    code: 'ERR_OPTION_RANGE',
    names: 'eta',
    send: client => outlast.send(client, nightly, undefined, { eta: new Date(-8.64e15) }),
  },
  {
    what: 'a priority of 10',
    code: 'ERR_OPTION_RANGE',
    names: 'priority',
    send: client => outlast.send(client, nightly, undefined, { priority: 10 }),
  },
  {
    what: 'headers that no message could carry',
    code: 'ERR_PAYLOAD_TOO_LARGE',
    names: 'headers',
    send: client =>
      outlast.send(client, nightly, undefined, { headers: { big: 'x'.repeat(25_000) } }),
  },
  {
    what: 'a header that is no text',
    code: 'ERR_INPUT_NOT_JSON',
    names: 'headers.n',
    send: client => outlast.send(client, nightly, undefined, { headers: { n: 1 as never } }),
  },
  {
    what: 'an ordering key with a control character',
    code: 'ERR_NAME_UNSAFE',
    names: 'orderingKey',
    send: client => outlast.send(client, nightly, undefined, { orderingKey: 'a\n' }),
  },
  {
    what: 'an ordering key that is no text',
    code: 'ERR_NAME_UNSAFE',
    names: 'orderingKey',
    send: client => outlast.send(client, ordered, { orderId: 7 as never }),
  },
  {
    what: 'an ordering key beside a countdown',
    code: 'ERR_OPTIONS_CONFLICT',
    names: 'countdown',
    send: client => outlast.send(client, nightly, undefined, { orderingKey: 'a', countdown: '1s' }),
  },
  {
    what: 'a contract with ordering beside an eta',
    code: 'ERR_OPTIONS_CONFLICT',
    names: 'eta',
    send: client => outlast.send(client, ordered, { orderId: '7' }, { eta: new Date() }),
  },
  {
    what: 'an unknown option of celery',
    code: 'ERR_UNKNOWN_OPTION',
    names: 'reply_to',
    send: client =>
      outlast.send(client, nightly, undefined, { celery: { reply_to: 'q' } as never }),
  },
  {
    what: 'a routing key that is no text',
    code: 'ERR_NAME_UNSAFE',
    names: 'celery.routingKey',
    send: client =>
      outlast.send(client, nightly, undefined, { celery: { routingKey: 5 as never } }),
  },
  {
    what: 'a link that is no task',
    code: 'ERR_TASK_UNKNOWN',
    names: 'not a task',
    send: client => outlast.send(client, nightly, undefined, { link: 'send.nightly' as never }),
  },
  {
    what: 'a link with bad input',
    code: 'ERR_INPUT_INVALID',
    names: 'orderId',
    send: client =>
      outlast.send(client, nightly, undefined, { link: order.with({ orderId: 1 as never }) }),
  },
  {
    what: 'an error link that cannot be JSON',
    code: 'ERR_INPUT_NOT_JSON',
    names: 'fn',
    send: client =>
      outlast.send(client, nightly, undefined, { linkError: anything.with({ fn: () => 1 }) }),
  },
  {
    what: 'a link with an idempotency key',
    code: 'ERR_OPTIONS_CONFLICT',
    names: 'idempotencyKey',
    send: client =>
      outlast.send(client, nightly, undefined, {
        link: nightly.with(undefined, { idempotencyKey: 'k' }),
      }),
  },
  {
    what: 'a link to a task with an ordering',
    code: 'ERR_OPTIONS_CONFLICT',
    names: 'ordering',
    send: client => outlast.send(client, nightly, undefined, { link: ordered }),
  },
  {
    what: 'a link with a deadline of its own',
    code: 'ERR_OPTIONS_CONFLICT',
    names: 'deadline',
    send: client =>
      outlast.send(client, nightly, undefined, {
        link: nightly.with(undefined, { deadline: '1h' }),
      }),
  },
  {
    what: 'a link that expires at once',
    code: 'ERR_OPTION_RANGE',
    names: 'expires',
    send: client =>
      outlast.send(client, nightly, undefined, {
        link: nightly.with(undefined, { expires: '0s' }),
      }),
  },
  {
    what: 'a step that is given what the result before becomes',
    code: 'ERR_INPUT_INVALID',
    names: 'image',
    send: client =>
      outlast.sendMany(client, [
        chain(texts.with(), publish.after({ image: 'x', page: '/' } as never)),
      ]),
  },
  {
    what: 'a step without a place for the result before',
    code: 'ERR_INPUT_INVALID',
    names: 'positional',
    send: client => outlast.sendMany(client, [chain(nightly.with(), keyed as never)]),
  },
  {
    what: 'a chain inside of a chain',
    code: 'ERR_TASK_UNKNOWN',
    names: 'not a task',
    send: client =>
      outlast.sendMany(client, [chain(nightly.with(), chain(nightly.with()) as never)]),
  },
  {
    what: 'an idempotency key in the header of a chord',
    code: 'ERR_OPTIONS_CONFLICT',
    names: 'idempotencyKey',
    send: client =>
      outlast.sendMany(client, [
        chord([nightly.with(undefined, { idempotencyKey: 'k' })], nightly),
      ]),
  },
  {
    what: 'a chain whose last step makes it too large',
    code: 'ERR_PAYLOAD_TOO_LARGE',
    names: '1048576',
    send: client =>
      outlast.sendMany(client, [chain(nightly.with(), anything.with('x'.repeat(1_100_000)))]),
  },
  {
    what: 'something that is no task',
    code: 'ERR_TASK_UNKNOWN',
    names: 'not a task',
    send: client => outlast.send(client, { name: 'x' } as never),
  },
];

describe('bad input', () => {
  it.each(BAD_INPUT)(
    '$what is $code, names the path and harms no transaction',
    async ({ code, names, send }) => {
      const before = await countRows();
      const answer = await inTransaction(async client => {
        await client.query('insert into orders (id) values ($1) on conflict do nothing', [code]);
        await send(client);
      });
      expect(answer).toBeInstanceOf(Error);
      if (!isOutlastError(answer, code)) throw answer as Error;
      expect(`${answer.message} ${JSON.stringify(answer)}`).toContain(names);
      expect(answer.hint).not.toBe('');
      expect(
        (await database.pool.query('select 1 from orders where id = $1', [code])).rowCount,
      ).toBe(1);
      expect(await countRows()).toBe(before);
    },
  );
});
