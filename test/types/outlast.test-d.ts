/**
 * What the compiler knows about Outlast as its users import it: the examples of the API page, and
 * what must not compile. Compiled by `tsc` against the built declarations, never run.
 */
import { PGlite, type Transaction } from '@electric-sql/pglite';
import { createPool as createMariadbPool, type PoolConnection as MariadbConnection } from 'mariadb';
import { createPool as createCallbackPool } from 'mysql2';
import {
  createPool as createMysql2Pool,
  type PoolConnection as Mysql2Connection,
} from 'mysql2/promise';
import { Pool, type PoolClient } from 'pg';
import * as v from 'valibot';
import { z } from 'zod';
import {
  bury,
  createOutlast,
  currentTask,
  defineConfig,
  discard,
  isOutlastError,
  retryIn,
  runOnce,
  shutdownSignal,
  startRelay,
  startResurrector,
  startWorker,
  type Handler,
  type HandlesOf,
  type LifeState,
  type Outlast,
  type Service,
  type SqlTransaction,
  type TaskHandle,
} from 'outlast';
import { createAdmin, type Admin } from 'outlast/admin';
import { startDev } from 'outlast/dev';
import { fromMariadb } from 'outlast/mariadb';
import { fromMysql2 } from 'outlast/mysql2';
import { fromPg } from 'outlast/pg';
import { fromPGlite } from 'outlast/pglite';
import { task, unchecked, type InputOf, type ParsedOf, type ResultOf } from 'outlast/task';

// The one comparison the compiler makes without looking for assignability; T is its whole point.
// oxlint-disable typescript/no-unnecessary-type-parameters
type Equal<A, B> =
  (<T>() => T extends A ? 1 : 2) extends <T>() => T extends B ? 1 : 2 ? true : false;
// oxlint-enable typescript/no-unnecessary-type-parameters
type Expect<T extends true> = T;
/** Keeps the checks of a block in use, and so under the compiler's eyes. */
type Facts<T extends readonly true[]> = T;

declare function mail(
  orderId: string,
  options: { idempotencyKey: string; signal: AbortSignal },
): Promise<string>;
declare function gateway(
  input: object,
  options: { key: string; fence: number; signal: AbortSignal },
): Promise<string>;
class CardDeclined extends Error {}

// (a) Quick start
const sendReceipt = task('shop.send-receipt', {
  input: z.object({ orderId: z.string() }),
  result: z.object({ mailId: z.string() }),
  timeout: '30s',
});
const config = defineConfig({ tasks: ['./src/handlers/*'] });
const pool = new Pool({ connectionString: process.env['OUTLAST_DATABASE_URL'] });
const outlast = createOutlast({ ...config, adapter: fromPg(pool) });
export const sendReceiptHandler: Handler = outlast.handler(
  sendReceipt,
  async ({ orderId }, ctx) => {
    return { mailId: await mail(orderId, { idempotencyKey: ctx.id, signal: ctx.signal }) };
  },
);
export async function placeOrder(): Promise<string> {
  const client = await pool.connect();
  await client.query('BEGIN');
  await client.query('INSERT INTO orders (id) VALUES ($1)', ['17']);
  const sent = await outlast.send(client, sendReceipt, { orderId: '17' });
  await client.query('COMMIT');
  client.release();
  return (await sent.result({ timeout: '30s' })).mailId;
}
export type QuickStart = Facts<
  [
    Expect<Equal<typeof outlast, Outlast<PoolClient>>>,
    Expect<Equal<InputOf<typeof sendReceipt>, { orderId: string }>>,
    Expect<Equal<ResultOf<typeof sendReceipt>, { mailId: string }>>,
  ]
>;

// (b) Tasks
const charge = task('billing.charge', {
  input: z.object({ orderId: z.string(), cents: z.number().int(), tenant: z.string() }),
  result: unchecked<{ chargeId: string }>(),
  version: 2,
  queue: 'billing',
  priority: 7,
  timeout: '30s',
  softTimeout: '25s',
  expires: '1h',
});
const nightly = task('shop.nightly');
const resize = task('images.resize', {
  queue: 'python',
  args: z.tuple([z.string(), z.number()]),
  kwargs: z.object({ format: z.enum(['webp', 'png']).optional() }),
  result: z.object({ url: z.string() }),
});
export const publish = task('site.publish', {
  params: ['image', 'page'],
  input: z.object({ image: z.object({ url: z.string() }), page: z.string() }),
  result: z.string(),
});
const dated = task('shop.dated', {
  input: v.object({ day: v.pipe(v.string(), v.transform(Number)), n: v.optional(v.number(), 1) }),
  result: v.pipe(v.string(), v.transform(Number)),
});
export type Tasks = Facts<
  [
    Expect<Equal<InputOf<typeof dated>, { day: string; n?: number | undefined }>>,
    Expect<Equal<ParsedOf<typeof dated>, { day: number; n: number }>>,
    Expect<Equal<ResultOf<typeof dated>, number>>,
  ]
>;

// (c) Producing
export async function produce(): Promise<LifeState> {
  await outlast.transaction(async tx => {
    const isClient: Expect<Equal<typeof tx, PoolClient>> = true;
    const sent = await outlast.send(
      tx,
      charge,
      { orderId: '17', cents: 4200, tenant: 'a' },
      {
        countdown: '10m',
        expires: '2h',
        deadline: '3h',
        id: '0192…',
        queue: 'vip',
        priority: 9,
        headers: { region: 'eu' },
        keepResult: true,
        idempotencyKey: 'order-17',
        link: nightly,
      },
    );
    const isHandle: Expect<Equal<typeof sent, TaskHandle<{ chargeId: string }>>> = true;
    await outlast.send(tx, resize, { args: ['cat.png', 800], kwargs: { format: 'webp' } });
    await outlast.sendMany(
      tx,
      ['1', '2'].map(orderId => charge.with({ orderId, cents: 1, tenant: 'a' })),
    );
    return [isClient, isHandle];
  });
  const pushed = await outlast.push(nightly);
  await pushed.result({ timeout: '1m', signal: AbortSignal.timeout(5_000) });
  return await outlast.find(charge, '0192…').state();
}

/** Who sends what where. */
export async function sends(client: PoolClient, given: Pool): Promise<void> {
  // @ts-expect-error -- a pool has no transaction
  await outlast.send(given, nightly);
  // @ts-expect-error -- nor has it for many
  await outlast.sendMany(given, [nightly.with()]);
  await outlast.send(client, nightly);
  await outlast.send(client, nightly, undefined, { countdown: '1s' });
  // @ts-expect-error -- there is no input to give
  await outlast.send(client, nightly, { orderId: '1' });
  // @ts-expect-error -- the input is missing
  await outlast.send(client, sendReceipt);
  // @ts-expect-error -- as above
  await outlast.push(sendReceipt);
  await outlast.send(client, sendReceipt, {
    // @ts-expect-error -- a number where text is due; the compiler points at it
    orderId: 17,
  });
  await outlast.send(client, dated, {
    // @ts-expect-error -- what the handler gets is not what is sent
    day: 5,
  });
  await outlast.send(client, resize, {
    // @ts-expect-error -- arguments in the wrong order
    args: [800, 'cat.png'],
  });
  await outlast.send(
    client,
    sendReceipt,
    { orderId: '17' },
    // @ts-expect-error -- a number where a duration is due
    { countdown: 600 },
  );
  await outlast.send(
    client,
    sendReceipt,
    { orderId: '17' },
    // @ts-expect-error -- no such option
    { delay: '10m' },
  );
  // @ts-expect-error -- a name is no contract
  await outlast.send(client, 'shop.nightly');
}

/** Handles keep the type of their result, many of them each its own. */
export async function results(client: PoolClient): Promise<void> {
  const isVoid: Expect<Equal<Awaited<ReturnType<TaskHandle<void>['result']>>, void>> = true;
  const sent = await outlast.send(client, dated, { day: '1' });
  const value = await sent.result();
  const isNumber: Expect<Equal<typeof value, number>> = true;
  const many = await outlast.sendMany(client, [
    sendReceipt.with({ orderId: '1' }),
    nightly.with(),
    dated.with({ day: '2' }),
  ]);
  const areThree: Expect<
    Equal<
      typeof many,
      readonly [TaskHandle<{ mailId: string }>, TaskHandle<void>, TaskHandle<number>]
    >
  > = true;
  const calls = ['1', '2'].map(orderId => sendReceipt.with({ orderId }));
  const list = await outlast.sendMany(client, calls);
  const isList: Expect<Equal<typeof list, HandlesOf<typeof calls>>> = true;
  const first = await list[0]?.result();
  const isMail: Expect<Equal<typeof first, { mailId: string } | undefined>> = true;
  // @ts-expect-error -- a handle is not thenable: awaiting `send` waits for no outcome
  void sent.then;
  // @ts-expect-error -- three were sent
  const fourth: unknown = many[3];
  const found = await outlast.find(sendReceipt, 'id').result();
  const isSame: Expect<Equal<typeof found, { mailId: string }>> = true;
  void [fourth, isVoid, isNumber, areThree, isList, isMail, isSame];
}

// (d) Handlers
export const chargeHandler: Handler = outlast.handler(charge, {
  mode: 'inline',
  maxResurrections: 5,
  retry: {
    maxAttempts: 5,
    backoff: '1s',
    maxBackoff: '1h',
    jitter: 'full',
    retryIf: error => !(error instanceof CardDeclined),
  },
  migrations: {
    1: (old: { orderId: string; euros: number }) => ({
      orderId: old.orderId,
      cents: old.euros * 100,
      tenant: 'a',
    }),
  },
  checkpoint: z.object({ page: z.number() }),
  onSoftTimeout: ctx => ctx.log.warn({ order: ctx.input.orderId }, 'slow'),
  run: async (input, ctx) => {
    const isInput: Expect<Equal<typeof input, { orderId: string; cents: number; tenant: string }>> =
      true;
    const isPage: Expect<Equal<typeof ctx.lastCheckpoint, { page: number } | undefined>> = true;
    if (input.cents === 0) return discard('nothing to charge');
    if (input.cents < 0) return bury('negative amount');
    for (let page = ctx.lastCheckpoint?.page ?? 0; page < 3; page++) await ctx.checkpoint({ page });
    const paid = await gateway(input, { key: ctx.id, fence: ctx.fence, signal: ctx.signal });
    if (paid === 'busy') return retryIn('5m', 'gateway busy');
    void [isInput, isPage];
    return await ctx.transaction(async tx => {
      const isClient: Expect<Equal<typeof tx, PoolClient>> = true;
      const { rows } = await tx.query<{ id: string }>(
        'UPDATE orders SET charge = $1 WHERE id = $2',
        [paid, input.orderId],
      );
      await outlast.send(tx, nightly);
      void isClient;
      return { chargeId: rows[0]?.id ?? paid };
    });
  },
});

/** Handlers get the schema's output and return the schema's input. */
export const handlers: readonly Handler[] = [
  outlast.handler(dated, ({ day, n }) => {
    const areNumbers: Expect<Equal<[typeof day, typeof n], [number, number]>> = true;
    return `${day} ${n} ${areNumbers}`;
  }),
  outlast.handler(resize, ({ args: [path, width], kwargs }, ctx) => {
    const format: 'webp' | 'png' | undefined = kwargs.format;
    const facts: Expect<
      Equal<
        [typeof path, typeof width, typeof ctx.attempt, typeof ctx.softSignal],
        [string, number, number, AbortSignal]
      >
    > = true;
    return { url: `${path} ${width} ${format} ${facts}` };
  }),
  outlast.handler(nightly, async (_, ctx) => {
    const id: string = await ctx.send(sendReceipt, { orderId: '1' });
    await ctx.send(nightly);
    const word = await ctx.transaction(() => Promise.resolve('a value' as const), { step: 'two' });
    const isWord: Expect<Equal<typeof word, 'a value'>> = true;
    void [id, isWord, currentTask()?.id];
    // @ts-expect-error -- the input is missing
    await ctx.send(sendReceipt);
  }),
  outlast.handler(
    dated,
    // @ts-expect-error -- a number where the result's schema takes text
    () => 5,
  ),
  outlast.handler(charge, {
    checkpoint: z.object({ page: z.number() }),
    run: async (_, ctx) => {
      // @ts-expect-error -- not what the schema of checkpoints says
      await ctx.checkpoint({ page: 'one' });
      return { chargeId: '1' };
    },
  }),
  outlast.handler(charge, async (_, ctx) => {
    // @ts-expect-error -- without a schema there are no checkpoints
    await ctx.checkpoint({ page: 1 });
    return { chargeId: '1' };
  }),
  outlast.handler(charge, {
    retry: {
      // @ts-expect-error -- a number where a duration is due
      backoff: 1_000,
    },
    run: () => discard('x'),
  }),
  outlast.handler(charge, {
    // @ts-expect-error -- no such mode
    mode: 'fiber',
    run: () => discard('x'),
  }),
];

// (c) PGlite, our own transactions, and a second library on the same outbox.
export async function others(): Promise<void> {
  const db = await PGlite.create();
  const embedded = createOutlast({ adapter: fromPGlite(db) });
  const isEmbedded: Expect<Equal<typeof embedded, Outlast<Transaction>>> = true;
  await db.transaction(async tx => {
    await tx.query('select 1');
    await embedded.send(tx, nightly);
  });
  // @ts-expect-error -- the database is no transaction
  await embedded.send(db, nightly);
  const own = createOutlast({ database: 'pglite:./.outlast' });
  const isOwn: Expect<Equal<typeof own, Outlast>> = true;
  const count = await own.transaction(async tx => {
    const isSql: Expect<Equal<typeof tx, SqlTransaction>> = true;
    const rows = await tx.query('select $1::int as n', [1]);
    await own.send(tx, nightly);
    return isSql ? rows.length : 0;
  });
  const isNumber: Expect<Equal<typeof count, number>> = true;
  const viaPg = own.via(fromPg(pool));
  const isVia: Expect<Equal<typeof viaPg, Outlast<PoolClient>>> = true;
  // @ts-expect-error -- a client of pg is no transaction of PGlite
  await embedded.send(await pool.connect(), nightly);
  void [isEmbedded, isOwn, isNumber, isVia];
}

// (c) MySQL and MariaDB: a connection of the pool, and not the pool.
export async function mysql(): Promise<void> {
  const mysql2Pool = createMysql2Pool('mysql://localhost/crm');
  const viaMysql2 = createOutlast({ outbox: 'crm', adapter: fromMysql2(mysql2Pool) });
  const isMysql2: Expect<Equal<typeof viaMysql2, Outlast<Mysql2Connection>>> = true;
  const connection = await mysql2Pool.getConnection();
  await connection.beginTransaction();
  await viaMysql2.send(connection, nightly);
  // @ts-expect-error -- a pool is no transaction
  await viaMysql2.send(mysql2Pool, nightly);
  const mariadbPool = createMariadbPool('mariadb://localhost/crm');
  const viaMariadb = createOutlast({ outbox: 'crm', adapter: fromMariadb(mariadbPool) });
  const isMariadb: Expect<Equal<typeof viaMariadb, Outlast<MariadbConnection>>> = true;
  await viaMariadb.send(await mariadbPool.getConnection(), nightly);
  // @ts-expect-error -- a pool is no transaction
  await viaMariadb.send(mariadbPool, nightly);
  // @ts-expect-error -- a connection of another library
  await viaMysql2.send(await mariadbPool.getConnection(), nightly);
  // @ts-expect-error -- what has callbacks has no promises to wait for
  fromMysql2(createCallbackPool('mysql://localhost/crm'));
  void [isMysql2, isMariadb];
}

// (f) Configuration
export const full = defineConfig({
  database: 'postgres://localhost/shop',
  tasks: ['./src/handlers/*'],
  strict: true,
  excludeTasks: ['metrics.*'],
  maxPayloadBytes: 1_048_576,
  relay: { batchSize: 500, idleTime: '1s', staleTimeoutSeconds: 300 },
  worker: {
    queues: { billing: 3, default: 1 },
    concurrency: 50,
    processes: 2,
    lease: '5s',
    beat: '1s',
  },
  on: { 'task:dead-lettered': event => void [event.name, event.reason] },
});

// (g) In your own process
export async function main(): Promise<void> {
  const signal = shutdownSignal();
  await using relay = await startRelay(outlast, { signal, batchSize: 500 });
  await using worker = await startWorker(outlast, {
    signal,
    tasks: [chargeHandler],
    concurrency: 20,
  });
  await using recovery = await startResurrector(outlast, { signal });
  await Promise.race([relay.finished, worker.finished, recovery.finished]);
  await runOnce(outlast, { tasks: [chargeHandler], maxTime: '50s' });
  await using dev = await startDev({ port: 0, signal });
  const services: readonly Service[] = [relay, worker, recovery, dev];
  const admin: Admin = createAdmin(outlast);
  const { queueDepth, topFailing } = await admin.stats({ top: 3 });
  const letter = await admin.deadLetters.show('id');
  const bytes: Uint8Array | undefined = letter?.body;
  // @ts-expect-error -- a worker has tasks to run
  await startWorker(outlast, { signal });
  // @ts-expect-error -- a number where a duration is due
  await runOnce(outlast, { tasks: [], maxTime: 50 });
  void [services, queueDepth, topFailing, bytes];
}

// (h) Errors, and (i) events: the code and the name decide which fields there are.
export function explain(error: unknown): string {
  if (isOutlastError(error, 'ERR_RESULT_TIMEOUT')) return `${error.id} is ${error.state}`;
  if (isOutlastError(error, 'ERR_INPUT_INVALID'))
    return error.issues.map(({ path, message }) => `${path} ${message}`).join();
  // @ts-expect-error -- no such code
  if (isOutlastError(error, 'ERR_NO_SUCH')) return '';
  if (!isOutlastError(error)) return '';
  // @ts-expect-error -- not every error has one
  void error.state;
  return `${error.code} ${error.hint}`;
}
export const undo: () => void = outlast.on(
  'task:resurrected',
  event => void event.resurrections.toFixed(),
  { signal: AbortSignal.timeout(1) },
);
outlast.on('task:done', event => {
  // @ts-expect-error -- of another event
  void event.reason;
});
// @ts-expect-error -- no such event
outlast.on('task:finished', () => undefined);

// (d) Free-standing code: its answer has the type of the function's.
export async function importOnce(): Promise<number> {
  const { value, ran } = await outlast.idempotencyLock('import-7', '1h', async signal => {
    signal.throwIfAborted();
    return { rows: 3 };
  });
  // @ts-expect-error -- a number where a duration is due
  await outlast.idempotencyLock('import-7', 60, () => 1);
  const second = await outlast.idempotencyLock('import-8', '1h', () => 1, { wait: '10s' });
  return ran ? value.rows + second.value : 0;
}
