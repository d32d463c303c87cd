import { afterAll, beforeAll, describe, expect, it, onTestFinished } from 'vitest';
import type { PoolClient } from 'pg';
import { fromPg } from '../../dist/adapters/transactions/pg.js';
import { createAdmin, type DeadLetterDetails } from '../../dist/admin/index.js';
import {
  createOutlast,
  startRelay,
  startResurrector,
  startWorker,
  task,
  unchecked,
  type Outlast,
  type OutlastConfig,
} from '../../dist/index.js';
import { digestOf } from '../../src/task/digest.ts';
import type { Envelope, EnvelopeOptions } from '../../src/task/envelope.ts';
import { toBytes } from '../../src/task/json.ts';
import { Keyring } from '../../src/task/keyring.ts';
import { encodeMessage } from '../../src/wire/encode-message.ts';
import { unique } from '../conformance/envelopes.ts';
import { migratedDatabase, until, type MigratedDatabase } from '../support/database.ts';
import { rabbitmqUrl, redisUrl } from '../support/servers.ts';
import {
  LONG_TIMEOUT,
  pythonMessage,
  rabbitIntruder,
  redisIntruder,
  type RawMessage,
} from './intruder.ts';

const SECRET = 'ab'.repeat(32);
const HOUR = 3_600_000;
const keyring = new Keyring([{ id: 'k', secret: Buffer.from(SECRET, 'hex') }]);

let database: MigratedDatabase;

beforeAll(async () => {
  database = await migratedDatabase('security');
});
afterAll(() => database.dispose());

/** A message that an attacker has captured: the holder of a key sent it, at that time. */
function captured(
  name: string,
  queue: string,
  given: {
    readonly id?: string;
    readonly issuedMs?: number;
    readonly options?: EnvelopeOptions;
  } = {},
): { readonly id: string; readonly message: RawMessage } {
  const { id = unique('task'), issuedMs = Date.now(), options = {} } = given;
  const text = '[["genuine"],{},{"callbacks":null,"errbacks":null,"chain":null,"chord":null}]';
  const named = { name, id, version: 1, body: toBytes(text) };
  const times = { etaMs: null, expiresMs: Date.now() + HOUR };
  const bare = { ...named, ...times, queue, priority: 0, digest: digestOf(named) };
  const signature = keyring.sign({ ...bare, options }, issuedMs);
  const envelope: Envelope = {
    ...bare,
    options: toBytes(JSON.stringify({ ...options, signature })),
  };
  const { headers, properties, body } = encodeMessage(envelope, 'gen1@host');
  return { id, message: { headers, properties: { ...properties }, body } };
}

describe.each([
  ['RabbitMQ', () => ({ broker: rabbitmqUrl() }), rabbitIntruder],
  ['Redis', () => ({ broker: redisUrl() }), redisIntruder],
] as const)('an attacker who may write to the queues of %s and has no key', (_, broker, enter) => {
  /** A worker that signs, with a protected queue and one for other senders. */
  async function setup(config: OutlastConfig = {}) {
    const [protectedQueue, openQueue] = [unique('protected'), unique('open')];
    const ran: { readonly name: string; readonly id: string; readonly args: unknown }[] = [];
    const outlast = createOutlast({
      database: database.url,
      adapter: fromPg(database.pool),
      ...broker(),
      signingKeys: [`k:${SECRET}`],
      unsignedQueues: { [openQueue]: ['open.*'] },
      ...config,
    });
    const contract = (name: string, queue: string) =>
      task(name, { queue, args: unchecked<unknown[]>(), result: unchecked<unknown>() });
    const pay = contract(unique('pay'), protectedQueue);
    const report = contract(unique('open.report'), openQueue);
    const sends = contract(unique('open.sends'), openQueue);
    const record = (made: { readonly name: string }) => ({
      retry: { maxAttempts: 1 },
      run: (input: unknown, { id }: { readonly id: string }) => {
        ran.push({ name: made.name, id, args: (input as { args: unknown }).args });
        return 1;
      },
    });
    const handlers = [
      outlast.handler(pay, record(pay)),
      outlast.handler(report, record(report)),
      outlast.handler(sends, async (_input, ctx) => {
        await ctx.send(pay, { args: ['ours'] }, { id: `${ctx.id}-sent` });
        return 1;
      }),
    ];
    const queues = [protectedQueue, openQueue];
    const worker = await startWorker(outlast, { tasks: handlers, queues, idleTime: '100ms' });
    const relay = await startRelay(outlast);
    // Sends the follow-ups that a busy broker did not confirm in time.
    const resurrector = await startResurrector(outlast);
    const intruder = await enter();
    onTestFinished(async () => {
      await intruder.close();
      await resurrector.stop();
      await relay.stop();
      await worker.stop();
      await outlast.close();
    });
    // The queues exist once a task came through them.
    const first = await outlast.push(pay, { args: ['first'] });
    await first.result(LONG_TIMEOUT);
    await (await outlast.push(report, { args: ['first'] })).result(LONG_TIMEOUT);
    ran.length = 0;
    return {
      outlast,
      intruder,
      pay,
      report,
      sends,
      protectedQueue,
      openQueue,
      ran,
      ranOf: (id: string) => ran.filter(one => one.id === id),
      /** Everything that was sent before this has been answered. */
      settle: async () => {
        await (await outlast.push(pay, { args: ['last'] })).result(LONG_TIMEOUT);
        await (await outlast.push(report, { args: ['last'] })).result(LONG_TIMEOUT);
      },
      letter: (name: string) => until(() => letterOf(outlast, name)),
    };
  }

  it('cannot take the id of a signed task: the forged message is a dead letter, and the signed one runs', async () => {
    const { intruder, pay, protectedQueue, letter, ranOf, outlast } = await setup();
    const { id, message } = captured(pay.name, protectedQueue);
    await intruder.put(protectedQueue, pythonMessage(pay.name, id, { args: ['forged'] }));
    await intruder.put(protectedQueue, message);
    expect(await outlast.find(pay, id).result(LONG_TIMEOUT)).toBe(1);
    expect(ranOf(id)).toMatchObject([{ args: ['genuine'] }]);
    expect(await letter(pay.name)).toMatchObject({
      id: expect.stringMatching(new RegExp(`^${id}#`)) as string,
      reason: 'ERR_DIGEST',
      error: expect.stringMatching('not signed') as string,
    });
  });

  it('cannot change signed fields, and adds nothing that a handler sees', async () => {
    const { intruder, pay, protectedQueue, ranOf, letter, outlast, settle } = await setup();
    const { id, message } = captured(pay.name, protectedQueue);
    const { headers, properties, body } = message;
    const changes: readonly Partial<RawMessage>[] = [
      { properties: { ...properties, replyTo: 'intruder' } },
      { headers: { ...headers, expires: null } },
      { headers: { ...headers, 'outlast-tenant': 'somebody-else' } },
      { headers: { ...headers, headers: { 'x-user': 'admin' } } },
    ];
    for (const change of changes)
      await intruder.put(protectedQueue, { headers, properties, body, ...change });
    await settle();
    expect(ranOf(id)).toEqual([]);
    expect((await letter(pay.name)).error).toMatch(/not one of the key k|eta or expires/);
    expect((await lettersOf(outlast, pay.name)).length).toBe(changes.length);
    await intruder.put(protectedQueue, message);
    await outlast.find(pay, id).result(LONG_TIMEOUT);
    expect(ranOf(id)).toHaveLength(1);
  });

  it('cannot move a signed task to another queue', async () => {
    const { intruder, pay, protectedQueue, openQueue, ran, letter } = await setup();
    const { message } = captured(pay.name, protectedQueue);
    await intruder.put(openQueue, message);
    expect((await letter(pay.name)).error).toMatch('does not name');
    expect(ran).toEqual([]);
  });

  it('cannot replay a signed task after its record was pruned; an operator can', async () => {
    const { intruder, pay, protectedQueue, letter, ranOf, outlast } = await setup();
    const { id, message } = captured(pay.name, protectedQueue, {
      issuedMs: Date.now() - 13 * HOUR,
    });
    await intruder.put(protectedQueue, message);
    const found = await letter(pay.name);
    expect(found.error).toMatch('was signed 13 h ago');
    expect(ranOf(id)).toEqual([]);
    expect(await createAdmin(outlast).deadLetters.retry(found.id)).toBe('ok');
    expect(await outlast.find(pay, id).result(LONG_TIMEOUT)).toBe(1);
    expect(ranOf(id)).toHaveLength(1);
  });

  it('gets no signature for the follow-ups of an unsigned task, at any depth', async () => {
    const { intruder, pay, report, protectedQueue, openQueue, ran, letter, outlast, settle } =
      await setup();
    const link = {
      task: pay.name,
      args: ['chosen'],
      kwargs: {},
      options: { queue: protectedQueue },
      immutable: true,
    };
    const viaOpen = { ...link, task: report.name, options: { queue: openQueue, link: [link] } };
    const chord = { ...link, options: { ...link.options, task_id: unique('body') }, chord_size: 1 };
    const embeds = [
      { callbacks: [link] },
      { chain: [link] },
      { callbacks: [viaOpen] },
      { chord },
      { callbacks: [chordLink(link)] },
      { callbacks: [{ task: 'celery.group', kwargs: { tasks: [link] }, options: {} }] },
    ];
    for (const embed of embeds)
      await intruder.put(
        openQueue,
        pythonMessage(report.name, unique('oracle'), { embed, headers: { group: unique('g') } }),
      );
    await until(async () => (await lettersOf(outlast, pay.name)).length === embeds.length);
    await settle();
    expect(
      ran.filter(({ name, args }) => name === pay.name && JSON.stringify(args) !== '["last"]'),
    ).toEqual([]);
    expect((await letter(pay.name)).error).toMatch('not signed');
  });

  it('can run only the tasks that an open queue names; what our handler then sends is signed', async () => {
    const { intruder, pay, sends, openQueue, ranOf, letter, outlast } = await setup();
    await intruder.put(openQueue, pythonMessage(pay.name, unique('direct')));
    expect((await letter(pay.name)).error).toMatch(`does not name ${pay.name}`);
    const id = unique('sends');
    await intruder.put(openQueue, pythonMessage(sends.name, id));
    expect(await outlast.find(pay, `${id}-sent`).result(LONG_TIMEOUT)).toBe(1);
    expect(ranOf(`${id}-sent`)).toMatchObject([{ args: ['ours'] }]);
  });
});

describe('a signed task', () => {
  async function setup(relayKeys: readonly string[]) {
    const queue = unique('waits');
    const base = { database: database.url, broker: rabbitmqUrl() };
    const outlast = createOutlast({
      ...base,
      adapter: fromPg(database.pool),
      signingKeys: [`k:${SECRET}`],
    });
    const publishing = createOutlast({ ...base, signingKeys: relayKeys });
    const echo = task(unique('waits'), { queue, result: unchecked<number>() });
    const tasks = [outlast.handler(echo, () => 7)];
    const worker = await startWorker(outlast, {
      tasks,
      queues: [queue],
      idleTime: '100ms',
      // A record also lives as long as its result.
      resultTtl: '5m',
    });
    onTestFinished(async () => {
      await worker.stop();
      await outlast.close();
      await publishing.close();
    });
    return { outlast, publishing, echo };
  }

  /** As if it had been sent and signed long ago. */
  async function age(id: string, queue: string): Promise<void> {
    const { rows } = await database.pool.query<{ options: Buffer; digest: string }>(
      'select options, digest from outlast_outbox where task_id = $1',
      [id],
    );
    const { signature: _, ...options } = JSON.parse(String(rows[0]?.options)) as EnvelopeOptions;
    const row = {
      id,
      queue,
      digest: rows[0]?.digest ?? '',
      etaMs: null,
      expiresMs: null,
      options,
    };
    const old = { ...options, signature: keyring.sign(row, Date.now() - 72 * HOUR) };
    await database.pool.query('update outlast_outbox set options = $2 where task_id = $1', [
      id,
      Buffer.from(JSON.stringify(old)),
    ]);
  }

  it.each([
    ['is signed again by a relay with a key', [`k:${SECRET}`], 7],
    ['is refused where its relay has none, and runs when it is revived', [], null],
  ])('that has waited in the outbox for days %s', async (_, relayKeys, result) => {
    const { outlast, publishing, echo } = await setup(relayKeys);
    const { id } = await outlast.transaction(tx => outlast.send(tx, echo));
    await age(id, echo.contract.queue);
    const relay = await startRelay(publishing);
    onTestFinished(() => relay.stop());
    if (result === null) {
      const found = await until(() => letterOf(outlast, echo.name));
      expect(found.error).toMatch('was signed 72 h ago');
      await createAdmin(outlast).deadLetters.retry(found.id);
    }
    expect(await outlast.find(echo, id).result(LONG_TIMEOUT)).toBe(7);
  });

  it('that was a moved dead letter is published under its original id when it is retried', async () => {
    const { outlast, publishing, echo } = await setup([`k:${SECRET}`]);
    const { id } = await outlast.transaction(tx => outlast.send(tx, echo));
    await age(id, echo.contract.queue);
    await database.pool.query('update outlast_outbox set task_id = $2 where task_id = $1', [
      id,
      `${id}#${'0a'.repeat(16)}`,
    ]);
    const relay = await startRelay(publishing);
    onTestFinished(() => relay.stop());
    expect(await outlast.find(echo, id).result(LONG_TIMEOUT)).toBe(7);
  });

  it('is remembered as long as a copy of it is accepted', async () => {
    const { outlast, echo } = await setup([]);
    const { id } = await outlast.push(echo);
    await outlast.find(echo, id).result(LONG_TIMEOUT);
    const { rows } = await database.pool.query<{ hours: number }>(
      `select extract(epoch from keep_until - clock_timestamp())::float / 3600 as hours
       from outlast_task where id = $1`,
      [id],
    );
    expect(rows[0]?.hours).toBeGreaterThan(12);
  });
});

/** As our own senders write it where they count the parts of chords themselves. */
const chordLink = (body: object): object => ({
  task: 'outlast.chord_part',
  args: [],
  kwargs: { group: unique('group'), place: 0, size: 1, body: JSON.stringify(body) },
  options: {},
});

async function lettersOf(outlast: Outlast<PoolClient>, taskName: string) {
  return (await createAdmin(outlast).deadLetters.list({ taskName })).items;
}

async function letterOf(
  outlast: Outlast<PoolClient>,
  taskName: string,
): Promise<DeadLetterDetails | null> {
  const [first] = await lettersOf(outlast, taskName);
  return first === undefined ? null : await createAdmin(outlast).deadLetters.show(first.id);
}
