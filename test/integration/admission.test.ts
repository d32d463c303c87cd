import { afterAll, beforeAll, describe, expect, it, onTestFinished } from 'vitest';
import type { PoolClient } from 'pg';
import {
  createOutlast,
  isOutlastError,
  startRelay,
  startWorker,
  task,
  unchecked,
  type Task,
  type EventMap,
  type Outlast,
  type OutlastConfig,
} from '../../dist/index.js';
import { createAdmin } from '../../dist/admin/index.js';
import { PgDatabase } from '../../dist/adapters/postgres/pg-database.js';
import { PostgresAdmissionStore } from '../../dist/adapters/postgres/postgres-admission-store.js';
import { fromPg } from '../../dist/adapters/transactions/pg.js';
import { intervalUs } from '../../dist/task/admission-rule.js';
import { RabbitInspector } from '../support/rabbit-inspector.ts';
import { startRedis } from '../support/redis-server.ts';
import { rabbitmqUrl } from '../support/servers.ts';
import { gate, migratedDatabase, until, type MigratedDatabase } from '../support/database.ts';

let database: MigratedDatabase;
let count = 0;
const opened: Outlast<PoolClient>[] = [];

beforeAll(async () => {
  database = await migratedDatabase('admission');
});

afterAll(async () => {
  for (const outlast of opened) await outlast.close();
  await database.dispose();
});

/** An instance with its own configuration, and names and queues that no other test uses. */
function setup(admission: OutlastConfig['admission'] = {}): {
  readonly outlast: Outlast<PoolClient>;
  readonly name: string;
  readonly queue: string;
  readonly refused: EventMap['admission:rejected'][];
} {
  count += 1;
  const refused: EventMap['admission:rejected'][] = [];
  const outlast = createOutlast({
    database: database.url,
    adapter: fromPg(database.pool),
    admission,
    on: { 'admission:rejected': event => refused.push(event) },
  });
  opened.push(outlast);
  return { outlast, name: `admission.task-${count}`, queue: `admission-${count}`, refused };
}

const caught = async (promise: Promise<unknown>): Promise<unknown> =>
  await promise.then(
    () => null,
    (error: unknown) => error,
  );

async function countOf(what: 'outlast_task' | 'outlast_outbox', queue: string): Promise<number> {
  const text = `select count(*)::int as n from ${what} where queue = $1`;
  return (await database.pool.query<{ n: number }>(text, [queue])).rows[0]?.n ?? -1;
}

describe('a push', () => {
  it('over the rate of its key is refused with the key and a time, and uses none of the rate', async () => {
    const { outlast, name, queue, refused } = setup();
    const charge = task(name, {
      input: unchecked<{ tenant: string }>(),
      queue,
      admission: { key: input => input.tenant, rate: { limit: 10, per: '1h', burst: 2 } },
    });
    await outlast.push(charge, { tenant: 'a' });
    await outlast.push(charge, { tenant: 'a' });
    const error = await caught(outlast.push(charge, { tenant: 'a' }));
    if (!isOutlastError(error, 'ERR_ADMISSION_REJECTED')) throw new Error('it was let in');
    expect(error.name).toBe('AdmissionRejectedError');
    expect(error.key).toBe(`task:${name}:a`);
    expect(error.retryAfterMs).toBeGreaterThan(0);
    expect(refused).toMatchObject([{ where: 'push', key: error.key, name, queue }]);
    // Another key is another limit.
    await outlast.push(charge, { tenant: 'b' });
    expect(await countOf('outlast_task', queue)).toBe(3);
  });

  it('is limited by the most specific limit of its tenant, its queue and its task', async () => {
    count += 1;
    const queue = `busy-${count}`;
    const { outlast, name } = setup({
      'tenant:*': { rate: { limit: 10, per: '1h', burst: 1 } },
      'tenant:big': { rate: { limit: 10, per: '1h', burst: 2 } },
      [`queue:${queue}`]: { rate: { limit: 10, per: '1h', burst: 3 } },
    });
    const plain = task(name, { queue });
    const rejectedBy = async (tenant: string): Promise<string | null> => {
      const error = await caught(outlast.push(plain, undefined, { tenant }));
      return isOutlastError(error, 'ERR_ADMISSION_REJECTED') ? error.key : null;
    };
    expect(await rejectedBy('small')).toBeNull();
    expect(await rejectedBy('small')).toBe('tenant:small');
    expect(await rejectedBy('big')).toBeNull();
    expect(await rejectedBy('big')).toBeNull();
    expect(await rejectedBy('big')).toBe('tenant:big');
    // Pushes refused for a tenant used nothing of the limit of the queue, which is full now.
    expect(await rejectedBy('other')).toBe(`queue:${queue}`);
  });

  it('that the broker refuses returns its share of the rate', async () => {
    const { outlast, name } = setup();
    const odd = task(name, {
      input: unchecked<string>(),
      queue: 'x'.repeat(40),
      admission: { rate: { limit: 10, per: '1h', burst: 1 } },
    });
    await database.pool.query(
      "alter table outlast_task add constraint no_such_queue check (queue <> repeat('x', 40))",
    );
    try {
      for (let call = 0; call < 3; call++)
        expect(await caught(outlast.push(odd, 'a'))).toMatchObject({ code: 'ERR_UNROUTABLE' });
    } finally {
      await database.pool.query('alter table outlast_task drop constraint no_such_queue');
    }
    await outlast.push(odd, 'a');
    expect(await caught(outlast.push(odd, 'a'))).toMatchObject({ code: 'ERR_ADMISSION_REJECTED' });
  });

  it('that may be deferred goes into the outbox instead, and is relayed from there', async () => {
    const { outlast, name, queue } = setup();
    const deferrable = task(name, {
      queue,
      admission: { rate: { limit: 2, per: '1s', burst: 1 }, onReject: 'defer' },
    });
    const handles = [await outlast.push(deferrable), await outlast.push(deferrable)];
    expect(await countOf('outlast_outbox', queue)).toBe(1);
    await using relay = await startRelay(outlast);
    await until(async () => (await countOf('outlast_task', queue)) === 2);
    expect(new Set(handles.map(({ id }) => id)).size).toBe(2);
    await relay.stop();
  });

  it('is refused while the store is unreachable', async () => {
    const { name } = setup();
    const outlast = createOutlast({ database: 'postgres://postgres@127.0.0.1:1/none' });
    const limited = task(name, { admission: { rate: { limit: 10, per: '1h' } } });
    expect(await caught(outlast.push(limited))).toMatchObject({ code: 'ERR_STORE_UNAVAILABLE' });
    expect(await caught(outlast.admit(limited))).toMatchObject({ code: 'ERR_STORE_UNAVAILABLE' });
    await outlast.close();
  });

  it('comes in unchecked while the store of its limits is away, if its task says so', async () => {
    const { name, queue } = setup();
    const ledger = await startRedis();
    onTestFinished(() => ledger.dispose());
    const options = {
      broker: rabbitmqUrl(),
      ledger: ledger.url,
      log: { level: 'silent' },
    } as const;
    const outlast = createOutlast({ database: database.url, ...options });
    opened.push(outlast as never);
    const rate = { limit: 10, per: '1h' } as const;
    const strict = task(`${name}.strict`, { queue, admission: { rate } });
    const open = task(`${name}.open`, { queue, admission: { rate, onOutage: 'admit' } });
    await outlast.push(strict);
    await ledger.stop();
    expect(await caught(outlast.push(strict))).toMatchObject({ code: 'ERR_STORE_UNAVAILABLE' });
    await outlast.push(open);
    const rabbit = await RabbitInspector.connect();
    onTestFinished(() => rabbit.close());
    expect(await rabbit.delete(queue)).toBe(2);
  });

  it('of any task is under the one limit that all of them share', async () => {
    const { outlast, name, queue } = setup({ '*': { rate: { limit: 10, per: '1h', burst: 2 } } });
    const [first, second, third] = ['a', 'b', 'c'].map(what =>
      task(`${name}.${what}`, { queue: `${queue}.${what}` }),
    ) as [Task, Task, Task];
    await outlast.push(first);
    await outlast.push(second);
    expect(await caught(outlast.push(third))).toMatchObject({
      code: 'ERR_ADMISSION_REJECTED',
      key: '*',
    });
  });
});

describe('a call that waited long for the lock of one key', () => {
  it('does not undo what other calls took from another key meanwhile', async () => {
    const db = await PgDatabase.open({ url: database.url, poolSize: 4, queryTimeoutMs: 30_000 });
    onTestFinished(() => db.close());
    const store = new PostgresAdmissionStore(db);
    const rate = { limit: 200, perMs: 1_000, burst: 100 };
    const [held, busy] = ['wait:a', 'wait:b'].map(key => ({ key, rate, count: 1 }));
    if (!held || !busy) throw new Error('two keys are needed');
    await store.take([held]);
    const startedAt = performance.now();
    let granted = 0;
    const takeMany = async (): Promise<number> => {
      const [grant] = await store.take([{ ...busy, count: 1_000 }]);
      return (granted += grant?.granted ?? 0);
    };
    const other = await database.pool.connect();
    await other.query('begin');
    await other.query('select 1 from outlast_admission where key = $1 for update', [held.key]);
    const late = store.take([held, busy]);
    const isWaiting = `select 1 from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'`;
    await until(async () => (await database.pool.query(isWaiting)).rowCount);
    // More than a second and a half of the rate.
    await until(async () => (await takeMany()) > 250);
    await other.query('commit');
    other.release();
    granted += (await late)[1]?.granted ?? 0;
    await takeMany();
    const elapsedUs = (performance.now() - startedAt) * 1_000;
    expect(granted).toBeLessThanOrEqual(rate.burst + Math.ceil(elapsedUs / intervalUs(rate)));
  });
});

describe('a sent task over the rate', () => {
  it('waits in the outbox without spending retries, and is published when the rate allows it', async () => {
    const { outlast, name, queue, refused } = setup();
    const slow = task(name, {
      input: unchecked<number>(),
      queue,
      admission: { rate: { limit: 5, per: '2s', burst: 1 } },
    });
    await outlast.transaction(tx =>
      outlast.sendMany(
        tx,
        Array.from({ length: 4 }, (_, n) => slow.with(n)),
      ),
    );
    await using relay = await startRelay(outlast);
    await until(async () => refused.length > 0);
    const { rows } = await database.pool.query<{ retries: number; last_error: unknown }>(
      'select retries, last_error from outlast_outbox where queue = $1',
      [queue],
    );
    expect(rows.every(row => row.retries === 0 && row.last_error === null)).toBe(true);
    await until(async () => (await countOf('outlast_task', queue)) === 4);
    // Deleted after it was published.
    await until(async () => (await countOf('outlast_outbox', queue)) === 0);
    expect(refused[0]).toMatchObject({ where: 'relay', key: `task:${name}` });
    await relay.stop();
  });

  it('does not delay other tasks', async () => {
    const { outlast, name, queue } = setup();
    const limited = task(`${name}.limited`, {
      queue,
      admission: { rate: { limit: 1, per: '1h', burst: 1 } },
    });
    const free = task(`${name}.free`, { queue: `${queue}-free` });
    await outlast.transaction(tx =>
      outlast.sendMany(tx, [limited.with(), limited.with(), limited.with(), free.with()]),
    );
    await using relay = await startRelay(outlast, { batchSize: 2 });
    await until(async () => (await countOf('outlast_task', `${queue}-free`)) === 1);
    await until(async () => (await countOf('outlast_task', queue)) === 1);
    await relay.stop();
    expect(await countOf('outlast_outbox', queue)).toBe(2);
  });
});

describe('a permit', () => {
  const rate = { limit: 10, per: '1h', burst: 2 } as const;

  it('admits one task that is sent later, and the relay asks for no further admission', async () => {
    const { outlast, name, queue } = setup();
    const limited = task(name, { queue, admission: { rate } });
    const permits = [await outlast.admit(limited), await outlast.admit(limited)];
    expect(await caught(outlast.admit(limited))).toMatchObject({
      code: 'ERR_ADMISSION_REJECTED',
      key: `task:${name}`,
    });
    await outlast.transaction(async tx => {
      for (const permit of permits) await outlast.send(tx, limited, undefined, { permit });
    });
    await using relay = await startRelay(outlast);
    await until(async () => (await countOf('outlast_task', queue)) === 2);
    await relay.stop();
  });

  it('admits one task and not two, and none after it expired', async () => {
    const { outlast, name, queue } = setup();
    const limited = task(name, { queue, admission: { rate } });
    const permit = await outlast.admit(limited);
    const late = await outlast.admit(limited);
    await outlast.push(limited, undefined, { permit });
    expect(await caught(outlast.push(limited, undefined, { permit }))).toMatchObject({
      code: 'ERR_ADMISSION_REJECTED',
    });
    await database.pool.query("update outlast_permit set ends_at = now() - interval '1s'");
    expect(await caught(outlast.push(limited, undefined, { permit: late }))).toMatchObject({
      code: 'ERR_ADMISSION_REJECTED',
    });
    expect(await countOf('outlast_task', queue)).toBe(1);
  });

  it('returns its share of the rate when it is cancelled', async () => {
    const { outlast, name } = setup();
    const limited = task(name, { admission: { rate: { ...rate, burst: 1 } } });
    const permit = await outlast.admit(limited);
    await permit.cancel();
    const again = await outlast.admit(limited);
    expect(await caught(outlast.push(limited, undefined, { permit }))).toMatchObject({
      code: 'ERR_OPTIONS_CONFLICT',
    });
    await outlast.push(limited, undefined, { permit: again });
  });

  it('is valid only for its own task and key', async () => {
    const { outlast, name } = setup();
    const keyed = task(name, {
      input: unchecked<string>(),
      admission: { key: input => input, rate },
    });
    const other = task(`${name}.other`, { admission: { rate } });
    const permit = await outlast.admit(keyed, 'a');
    for (const wrong of [
      outlast.push(keyed, 'b', { permit }),
      outlast.push(other, undefined, { permit }),
      outlast.push(other, undefined, { permit: {} as never }),
    ])
      expect(await caught(wrong)).toMatchObject({ code: 'ERR_OPTIONS_CONFLICT' });
    await outlast.push(keyed, 'a', { permit });
  });
});

describe('runs', () => {
  it('never exceed the concurrency limit, and each end admits the next one', async () => {
    const { outlast, name, queue } = setup();
    const heavy = task(name, { input: unchecked<number>(), queue, admission: { concurrency: 2 } });
    let [running, most, done] = [0, 0, 0];
    const handler = outlast.handler(heavy, async () => {
      running += 1;
      most = Math.max(most, running);
      await new Promise(resolve => setTimeout(resolve, 20));
      running -= 1;
      done += 1;
    });
    for (let n = 0; n < 12; n++) await outlast.push(heavy, n);
    const workers = [
      await startWorker(outlast, { tasks: [handler], queues: [queue] }),
      await startWorker(outlast, { tasks: [handler], queues: [queue] }),
    ];
    await until(async () => done === 12);
    expect(most).toBe(2);
    const failing = 'select 1 from outlast_task where queue = $1 and (failures > 0 or crashes > 0)';
    expect((await database.pool.query(failing, [queue])).rowCount).toBe(0);
    await until(async () => {
      const figures = await createAdmin(outlast).admission();
      return figures.find(({ key }) => key === `task:${name}`)?.held === 0;
    });
    await Promise.all(workers.map(worker => worker.stop()));
  });

  it('of a queue that the configuration limits are limited whichever application sent them, and others are not', async () => {
    count += 1;
    const queue = `runs-${count}`;
    const { outlast, name, refused } = setup({ [`queue:${queue}`]: { concurrency: 1 } });
    const [one, two] = [task(`${name}.one`, { queue }), task(`${name}.two`, { queue })];
    const first = gate();
    const handlers = [
      outlast.handler(one, () => first.opened),
      outlast.handler(two, async () => undefined),
    ];
    await using worker = await startWorker(outlast, { tasks: handlers, queues: [queue] });
    const running = await outlast.push(one);
    await until(async () => (await running.state()) === 'running');
    const waiting = await outlast.push(two);
    await until(async () => refused.length > 0);
    expect(refused[0]).toMatchObject({ where: 'worker', key: `queue:${queue}`, id: waiting.id });
    first.open();
    await waiting.result({ timeout: '30s' });
    await worker.stop();
  });

  it('of a dead worker hold no reservations', async () => {
    const { outlast, name, queue } = setup();
    const only = task(name, { queue, admission: { concurrency: 1 } });
    // A reservation of a run that no longer exists, as a killed worker leaves it.
    await database.pool.query(
      "insert into outlast_place (key, task_id, run) values ($1, 'nobody', 'gone')",
      [`task:${name}`],
    );
    const handler = outlast.handler(only, async () => undefined);
    await using worker = await startWorker(outlast, { tasks: [handler], queues: [queue] });
    await (await outlast.push(only)).result({ timeout: '30s' });
    await worker.stop();
  });
});

describe('options', () => {
  it.each([
    [{ rate: { limit: 0, per: '1s' } }, 'ERR_OPTION_RANGE'],
    [{ rate: { limit: -1, per: '1s' } }, 'ERR_OPTION_RANGE'],
    [{ rate: { limit: 1.5, per: '1s' } }, 'ERR_OPTION_RANGE'],
    [{ rate: { limit: 5, per: '0s' } }, 'ERR_OPTION_RANGE'],
    [{ rate: { limit: 5, per: 1 } }, 'ERR_OPTION_UNIT'],
    [{ rate: { limit: 5, per: '1s', burst: 6 } }, 'ERR_OPTION_RANGE'],
    [{ rate: { limit: 5, per: '1s', burst: 0 } }, 'ERR_OPTION_RANGE'],
    [{ rate: { limit: 1e9, per: '1ms' } }, 'ERR_OPTION_RANGE'],
    [{ rate: { limit: 1_000_000, per: '1d', burst: 1_000_000 } }, 'ERR_OPTION_RANGE'],
    [{ rate: { limit: 5, per: '1s', brust: 2 } }, 'ERR_UNKNOWN_OPTION'],
    [{ rate: 5 }, 'ERR_OPTION_RANGE'],
    [{ concurrency: 0 }, 'ERR_OPTION_RANGE'],
    [{ concurrency: '5' }, 'ERR_OPTION_RANGE'],
    [{ concurency: 5 }, 'ERR_UNKNOWN_OPTION'],
    [{}, 'ERR_OPTION_RANGE'],
    [null, 'ERR_OPTION_RANGE'],
  ])('%j are refused in a task and in the configuration', async (given, code) => {
    const rule = given as never;
    expect(await caught((async () => task('x', { admission: rule }))())).toMatchObject({ code });
    const config = (async () => createOutlast({ admission: { 'queue:x': rule } }))();
    expect(await caught(config)).toMatchObject({ code });
  });

  it('suggest the nearest known option in the configuration', async () => {
    const wrong = { 'queue:x': { concurency: 5 } } as never;
    expect(await caught((async () => createOutlast({ admission: wrong }))())).toMatchObject({
      nearest: 'concurrency',
    });
    const kind = { 'tennant:*': { concurrency: 5 } };
    expect(await caught((async () => createOutlast({ admission: kind }))())).toMatchObject({
      code: 'ERR_OPTION_RANGE',
      hint: 'Did you mean `tenant:*`?',
    });
  });

  it('of a send that give no valid key are refused before anything is written', async () => {
    const { outlast, name, queue } = setup();
    const odd = task(name, {
      input: unchecked<unknown>(),
      queue,
      admission: { key: input => input as string, concurrency: 1 },
    });
    expect(await caught(outlast.push(odd, 7))).toMatchObject({ code: 'ERR_NAME_UNSAFE' });
    expect(await caught(outlast.push(odd, 'a', { tenant: '' }))).toMatchObject({
      code: 'ERR_NAME_UNSAFE',
    });
    expect(await countOf('outlast_task', queue)).toBe(0);
  });
});
