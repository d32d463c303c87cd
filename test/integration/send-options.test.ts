import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { PoolClient } from 'pg';
import { PostgresOutboxStore } from '../../src/adapters/postgres/postgres-outbox-store.ts';
import { readEnvelope } from '../../src/adapters/postgres/postgres-rows.ts';
import { PgDatabase } from '../../src/adapters/postgres/pg-database.ts';
import { fromPg } from '../../src/adapters/transactions/pg.ts';
import { task, type Call, type SendOptions } from '../../src/task/define-task.ts';
import { derivedId } from '../../src/task/digest.ts';
import type { Envelope, EnvelopeOptions } from '../../src/task/envelope.ts';
import { toText } from '../../src/task/json.ts';
import { EMBED } from '../../src/task/signature.ts';
import { unchecked } from '../../src/task/standard-schema.ts';
import { chain, chord, group } from '../../src/task/workflow.ts';
import { createOutlast } from '../../src/app/create-outlast.ts';
import type { Outlast } from '../../src/app/outlast.ts';
import { migratedDatabase, type MigratedDatabase } from '../support/database.ts';

const add = task('options.add', {
  args: unchecked<[number, number]>(),
  kwargs: unchecked<{ note?: string }>(),
  result: unchecked<number>(),
});
const alarm = task('options.alarm', { input: unchecked<string>(), queue: 'ops', version: 3 });
const total = task('options.total', { input: unchecked<number[]>(), result: unchecked<number>() });
const limited = task('options.limited', { timeout: '30s', softTimeout: '1.5s', expires: '1h' });

let database: MigratedDatabase;
let outlast: Outlast<PoolClient>;
/** Its outbox is a named one, so its tasks go through it. */
let apart: Outlast<PoolClient>;
let db: PgDatabase;
let store: PostgresOutboxStore;

beforeAll(async () => {
  database = await migratedDatabase('options');
  outlast = createOutlast({ database: database.url, adapter: fromPg(database.pool) });
  const named = { outboxes: { own: { database: database.url } }, outbox: 'own' };
  apart = createOutlast({ database: database.url, ...named, adapter: fromPg(database.pool) });
  db = await PgDatabase.open({ url: database.url, poolSize: 1, queryTimeoutMs: 30_000 });
  store = new PostgresOutboxStore(db, { movesIntoLedger: false });
});

afterAll(async () => {
  await outlast.close();
  await apart.close();
  await db.close();
  await database.dispose();
});

interface Travelled {
  readonly envelope: Envelope;
  readonly options: EnvelopeOptions;
  readonly args: unknown;
  readonly kwargs: unknown;
  readonly embed: Readonly<Record<string, unknown>>;
}

type Travel = (call: Call) => Promise<readonly [Travelled, ...Travelled[]]>;

/** What a worker would be given after this call is committed. */
const travelStraight: Travel = async call => {
  await outlast.transaction(tx => outlast.sendMany(tx, [call]));
  const rows = await db.query(
    `select id, name, queue, priority, payload_version, body, options, digest,
       (extract(epoch from eta) * 1000)::bigint::text as eta_ms, (extract(epoch from expires_at) * 1000)::bigint::text as expires_ms
     from outlast_task where state = 'waiting' order by seq`,
  );
  await db.query('delete from outlast_task');
  return rows.map(row => unpacked(readEnvelope(row))) as never;
};

function unpacked(envelope: Envelope): Travelled {
  const [args, kwargs, embed] = JSON.parse(toText(envelope.body)) as [unknown, unknown, never];
  const options = JSON.parse(toText(envelope.options)) as EnvelopeOptions;
  return { envelope, options, args, kwargs, embed };
}

/** What a relay claims after this call is committed: the rows as they would be published. */
const travel: Travel = async call => {
  await apart.transaction(tx => apart.sendMany(tx, [call]));
  // A row that is not due would not be claimed: its eta is checked here, its waiting in another test.
  await database.pool.query('update outlast_outbox set available_at = now()');
  const claim = { relay: 'test', token: `t${Math.random()}`, limit: 100, staleMs: 60_000 };
  const rows = await store.claim(claim);
  await store.settlePublished(
    claim.token,
    rows.map(({ row }) => row),
  );
  const travelled = rows
    .toSorted((a, b) => Number(a.row) - Number(b.row))
    .map(({ envelope }) => unpacked(envelope));
  return travelled as [Travelled, ...Travelled[]];
};

const call = (options: SendOptions): Call => add.with({ args: [2, 3] }, options);

/** A signature as Celery writes it, with the fields that all of ours have. */
const signature = (
  name: string,
  fields: Readonly<Record<string, unknown>>,
  options: Readonly<Record<string, unknown>>,
): object => ({
  task: name,
  args: [],
  kwargs: {},
  subtask_type: null,
  immutable: false,
  ...fields,
  options: { queue: 'default', headers: { 'outlast-schema': 1 }, ...options },
});

interface Row {
  readonly option: string;
  readonly call: () => Call;
  readonly expected: (travelled: readonly [Travelled, ...Travelled[]]) => void;
}

const between = (ms: number | null, aroundMs: number): void => {
  expect(ms).toBeGreaterThan(aroundMs - 60_000);
  expect(ms).toBeLessThan(aroundMs + 60_000);
};
const ETA = new Date('2030-01-02T03:04:05.678Z');

const ROWS: readonly Row[] = [
  {
    option: 'countdown, absolute from the call on',
    call: () => call({ countdown: '10m' }),
    expected: ([row]) => between(row.envelope.etaMs, Date.now() + 600_000),
  },
  {
    option: 'eta',
    call: () => call({ eta: ETA }),
    expected: ([row]) => expect(row.envelope.etaMs).toBe(ETA.getTime()),
  },
  {
    option: 'expires as an instant',
    call: () => call({ expires: ETA }),
    expected: ([row]) => expect(row.envelope.expiresMs).toBe(ETA.getTime()),
  },
  {
    option: 'expires as a length, absolute from the call on',
    call: () => call({ expires: '2h' }),
    expected: ([row]) => between(row.envelope.expiresMs, Date.now() + 7_200_000),
  },
  {
    option: 'expires of the contract',
    call: () => limited.with(),
    expected: ([row]) => between(row.envelope.expiresMs, Date.now() + 3_600_000),
  },
  {
    option: 'time limits',
    call: () => limited.with(),
    expected: ([row]) =>
      expect(row.options).toMatchObject({ timeoutMs: 30_000, softTimeoutMs: 1_500 }),
  },
  {
    option: 'deadline',
    call: () => call({ deadline: ETA }),
    expected: ([row]) => expect(row.options.deadlineMs).toBe(ETA.getTime()),
  },
  {
    option: 'queue',
    call: () => call({ queue: 'vip' }),
    expected: ([row]) => expect(row.envelope.queue).toBe('vip'),
  },
  {
    option: 'priority',
    call: () => call({ priority: 9 }),
    expected: ([row]) => expect(row.envelope.priority).toBe(9),
  },
  {
    option: 'id',
    call: () => call({ id: 'my-own-id' }),
    expected: ([row]) => expect(row.envelope.id).toBe('my-own-id'),
  },
  {
    option: 'headers',
    call: () => call({ headers: { region: 'eu', 'trace id': 'ü' } }),
    expected: ([row]) => expect(row.options.headers).toEqual({ region: 'eu', 'trace id': 'ü' }),
  },
  {
    option: 'keepResult',
    call: () => call({ keepResult: false }),
    expected: ([row]) => expect(row.options.keepResult).toBe(false),
  },
  {
    option: 'exchange, routing key, reply to, correlation id, shadow',
    call: () =>
      call({
        celery: {
          exchange: 'shop',
          routingKey: 'order.paid',
          replyTo: 'answers',
          correlationId: 'c-1',
          shadow: 'pretty.name',
        },
      }),
    expected: ([row]) =>
      expect(row.options).toEqual({
        exchange: 'shop',
        routingKey: 'order.paid',
        replyTo: 'answers',
        correlationId: 'c-1',
        shadow: 'pretty.name',
      }),
  },
  {
    option: 'args and kwargs as JSON',
    call: () => add.with({ args: [2, 3], kwargs: { note: 'ä' } }),
    expected: ([row]) => expect([row.args, row.kwargs]).toEqual([[2, 3], { note: 'ä' }]),
  },
  {
    option: 'nothing that follows',
    call: () => call({}),
    expected: ([row]) => {
      expect(row.embed).toEqual({ callbacks: null, errbacks: null, chain: null, chord: null });
      expect(row.options).toEqual({});
    },
  },
  {
    option: 'link and link_error, with every option of theirs',
    call: () =>
      call({
        link: [
          add.after({ args: [16] }),
          add.with(
            { args: [1, 1] },
            {
              queue: 'other',
              priority: 3,
              countdown: '5s',
              expires: '1m',
              headers: { region: 'eu' },
              keepResult: false,
              celery: {
                exchange: 'x',
                routingKey: 'k',
                replyTo: 'q',
                correlationId: 'c',
                shadow: 's',
              },
            },
          ),
          limited,
        ],
        linkError: [alarm, alarm.with('given', { eta: ETA, id: 'alarm-1' })],
      }),
    expected: ([row]) => {
      const { id } = row.envelope;
      expect(row.embed).toEqual({
        callbacks: [
          signature('options.add', { args: [16] }, { task_id: derivedId(id, 'link:0') }),
          signature(
            'options.add',
            { args: [1, 1], immutable: true },
            {
              task_id: derivedId(id, 'link:1'),
              queue: 'other',
              priority: 3,
              countdown: 5,
              expires: 60,
              ignore_result: true,
              exchange: 'x',
              routing_key: 'k',
              reply_to: 'q',
              correlation_id: 'c',
              shadow: 's',
              headers: { region: 'eu', 'outlast-schema': 1 },
            },
          ),
          signature(
            'options.limited',
            { immutable: true },
            {
              task_id: derivedId(id, 'link:2'),
              time_limit: 30,
              soft_time_limit: 1.5,
              expires: 3_600,
            },
          ),
        ],
        errbacks: [
          signature('options.alarm', {}, { queue: 'ops', headers: { 'outlast-schema': 3 } }),
          signature(
            'options.alarm',
            { args: ['given'], immutable: true },
            {
              task_id: 'alarm-1',
              queue: 'ops',
              eta: '2030-01-02T03:04:05.678000+00:00',
              headers: { 'outlast-schema': 3 },
            },
          ),
        ],
        chain: null,
        chord: null,
      });
    },
  },
  {
    option: 'chain, in reverse and with fixed ids',
    call: () =>
      chain(
        add.with({ args: [2, 2] }),
        add.after({ args: [4] }, { linkError: alarm }),
        add.after({ args: [8] }, { id: 'the-last' }),
      ),
    expected: ([row, ...others]) => {
      expect(others).toEqual([]);
      expect([row.args, row.embed]).toEqual([
        [2, 2],
        {
          callbacks: null,
          errbacks: null,
          chord: null,
          chain: [
            signature('options.add', { args: [8] }, { task_id: 'the-last' }),
            signature(
              'options.add',
              { args: [4] },
              {
                task_id: derivedId(row.envelope.id, 'chain:1'),
                link_error: [
                  signature(
                    'options.alarm',
                    {},
                    { queue: 'ops', headers: { 'outlast-schema': 3 } },
                  ),
                ],
              },
            ),
          ],
        },
      ]);
    },
  },
  {
    option: 'group id and index',
    call: () => group([add.with({ args: [1, 1] }), add.with({ args: [2, 2] })]),
    expected: rows => {
      // Rows are written in the order of their ids.
      const options = rows.map(row => row.options);
      const [first, second] = options.toSorted(
        (a, b) => Number(a.groupIndex) - Number(b.groupIndex),
      );
      expect(first?.groupId).toMatch(/^[0-9a-f-]{36}$/);
      expect(first).toEqual({ groupId: second?.groupId, groupIndex: 0 });
      expect(second?.groupIndex).toBe(1);
    },
  },
  {
    option: 'chord, also of a chain in its header',
    call: () =>
      chord(
        [add.with({ args: [1, 1] }), chain(add.with({ args: [2, 2] }), add.after({ args: [3] }))],
        total,
      ),
    expected: rows => {
      // Rows are written in the order of their ids. The only task of the header belongs to its group.
      const first = rows.find(row => row.options.groupId !== undefined);
      const second = rows.find(row => row !== first);
      const { groupId = '' } = first?.options ?? {};
      const body = {
        ...signature('options.total', {}, { task_id: derivedId(groupId, 'chord') }),
        chord_size: 2,
      };
      expect(first?.embed['chord']).toEqual(body);
      // Of a chain the last step counts.
      expect(second?.options).toEqual({});
      expect(second?.embed['chord']).toBeNull();
      expect(second?.embed['chain']).toEqual([
        signature(
          'options.add',
          { args: [3] },
          {
            task_id: derivedId(second?.envelope.id ?? '', 'chain:1'),
            group_id: groupId,
            group_index: 1,
            chord: body,
          },
        ),
      ]);
    },
  },
];

describe('an option of a call', () => {
  it.each(ROWS)('survives the outbox: $option', async row => {
    row.expected(await travel(row.call()));
  });

  it.each(ROWS)('reaches a worker without a broker: $option', async row => {
    row.expected(await travelStraight(row.call()));
  });
});

describe('a workflow that is sent again', () => {
  it('is the same tasks if its first task is the same', async () => {
    const flow = (): Call =>
      chain(add.with({ args: [1, 2] }, { idempotencyKey: 'once' }), add.after({ args: [4] }));
    const [first] = await outlast.transaction(tx => outlast.sendMany(tx, [flow()]));
    const [second] = await outlast.transaction(tx => outlast.sendMany(tx, [flow()]));
    expect(second).toMatchObject({ id: first.id, isNew: false });
  });

  it('is refused under the same key with another step', async () => {
    const flow = (n: number): Call =>
      chain(add.with({ args: [1, 2] }, { idempotencyKey: 'other' }), add.after({ args: [n] }));
    await outlast.transaction(tx => outlast.sendMany(tx, [flow(1)]));
    await expect(outlast.transaction(tx => outlast.sendMany(tx, [flow(2)]))).rejects.toMatchObject({
      code: 'ERR_IDEMPOTENCY_MISMATCH',
    });
  });

  it('returns the handle of its last task', async () => {
    const [chained, grouped, joined] = await outlast.transaction(tx =>
      outlast.sendMany(tx, [
        chain(add.with({ args: [1, 1] }, { id: 'c1' }), add.after({ args: [1] }, { id: 'c2' })),
        group([add.with({ args: [1, 1] }, { id: 'g1' })]),
        chord([add.with({ args: [1, 1] }, { id: 'h1' })], total.after(undefined, { id: 'b1' })),
      ]),
    );
    expect([chained.id, chained.name]).toEqual(['c2', 'options.add']);
    expect([grouped.id, grouped.name]).toEqual([derivedId('g1', 'group'), 'group']);
    expect([joined.id, joined.name]).toEqual(['b1', 'options.total']);
  });

  it('that is empty sends nothing, or only its body', async () => {
    const [none, body] = await outlast.transaction(tx =>
      outlast.sendMany(tx, [group([]), chord([], total.after(undefined, { id: 'alone' }))]),
    );
    expect(await none.result()).toEqual([]);
    expect(await none.state()).toBe('done');
    const text = `select convert_from(body, 'UTF8') as body from outlast_task where id = 'alone'`;
    expect((await database.pool.query(text)).rows).toEqual([{ body: `[[[]],{},${EMBED}]` }]);
    expect(body.id).toBe('alone');
  });
});
