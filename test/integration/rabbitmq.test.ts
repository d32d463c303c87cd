import { afterAll, beforeAll, describe, expect, it, onTestFinished } from 'vitest';
import type { PoolClient } from 'pg';
import { fromPg } from '../../dist/adapters/transactions/pg.js';
import { createAdmin } from '../../dist/admin/index.js';
import {
  createOutlast,
  startRelay,
  startWorker,
  task,
  unchecked,
  type Handler,
  type Outlast,
  type Service,
  type Task,
} from '../../dist/index.js';
import { unique } from '../conformance/envelopes.ts';
import { gate, migratedDatabase, until, type MigratedDatabase } from '../support/database.ts';
import { RabbitInspector } from '../support/rabbit-inspector.ts';
import { rabbitmqUrl } from '../support/servers.ts';
import { TcpProxy } from '../support/tcp-proxy.ts';

let database: MigratedDatabase;
let outlast: Outlast<PoolClient>;
let relay: Service;
let rabbit: RabbitInspector;

beforeAll(async () => {
  database = await migratedDatabase('rabbitmq');
  rabbit = await RabbitInspector.connect();
  outlast = connect();
  relay = await startRelay(outlast, { publishConcurrency: 50 });
});

afterAll(async () => {
  await relay.stop();
  await outlast.close();
  await rabbit.close();
  await database.dispose();
});

function connect(broker: object = {}): Outlast<PoolClient> {
  const url = rabbitmqUrl();
  return createOutlast({
    database: database.url,
    broker: { url, ...broker },
    adapter: fromPg(database.pool),
  });
}

async function work(on: Outlast<PoolClient>, ...handlers: readonly Handler[]): Promise<void> {
  await workWith({}, on, handlers);
}

async function workWith(
  options: { readonly concurrency?: number },
  on: Outlast<PoolClient>,
  handlers: readonly Handler[],
): Promise<void> {
  const queues = [...new Set(handlers.map(handler => handler.task.contract.queue))];
  const worker = await startWorker(on, { tasks: handlers, queues, ...options });
  onTestFinished(() => worker.stop());
}

/** A task and a queue that no other test uses. */
function makeEcho(): Task<{ input: unknown; parsed: unknown; returned: unknown; result: unknown }> {
  const queue = unique('queue');
  return task(unique('echo'), { queue, input: unchecked<unknown>(), result: unchecked<unknown>() });
}

const isDrained = async (queue: string): Promise<boolean> => (await rabbit.depth(queue)) === 0;

async function deadReasons(queue: string, count: number): Promise<readonly string[]> {
  const text = `select reason from outlast_task where queue = $1 and state = 'dead'`;
  return await until(async () => {
    const { rows } = await database.pool.query<{ reason: string }>(text, [queue]);
    return rows.length === count && rows.map(({ reason }) => reason);
  });
}

describe('a task through RabbitMQ', () => {
  it('is committed with the data, published, run, and its result comes back', async () => {
    const echo = makeEcho();
    await work(
      outlast,
      outlast.handler(echo, value => value),
    );
    const input = { nul: 'a\u0000b', big: 2n ** 70n, text: 'é😀' };
    const sent = await outlast.transaction(tx => outlast.send(tx, echo, input));
    expect(await sent.result()).toEqual(input);
    await until(() => isDrained(echo.contract.queue));
    const text = 'select 1 from outlast_outbox where task_id = $1';
    expect((await database.pool.query(text, [sent.id])).rowCount).toBe(0);
  });

  it('is in the queue before a worker takes it, and not in the ledger', async () => {
    const echo = makeEcho();
    const sent = await outlast.transaction(tx => outlast.send(tx, echo, 1));
    const { properties, content } = await until(() => rabbit.peek(echo.contract.queue));
    expect(properties.headers).toMatchObject({ task: echo.name, id: sent.id, lang: 'js' });
    expect(JSON.parse(content.toString())).toEqual([[1], {}, expect.any(Object)]);
    await work(
      outlast,
      outlast.handler(echo, value => value),
    );
    expect(await sent.result()).toBe(1);
  });

  it('goes straight to the queue when it is pushed', async () => {
    const echo = makeEcho();
    const pushed = await outlast.push(echo, 'now');
    await work(
      outlast,
      outlast.handler(echo, value => value),
    );
    expect(await pushed.result()).toBe('now');
  });

  it('is retried from the ledger when it has failed, because its message is acknowledged', async () => {
    const proxy = await TcpProxy.to(rabbitmqUrl());
    onTestFinished(() => proxy.close());
    const own = connect({ url: proxy.url(rabbitmqUrl()) });
    onTestFinished(() => own.close());
    const echo = makeEcho();
    const second = gate();
    let runs = 0;
    const handler = own.handler(echo, {
      retry: { maxAttempts: 2, backoff: '1ms' },
      run: async () => {
        runs += 1;
        if (runs === 1) throw new Error('not yet');
        await second.opened;
        return runs;
      },
    });
    const sent = await outlast.push(echo, 0);
    await work(own, handler);
    await until(async () => runs === 2);
    await proxy.close();
    // An unacknowledged message would be back in the queue.
    await until(async () => (await rabbit.consumers(echo.contract.queue)) === 0);
    expect(await rabbit.depth(echo.contract.queue)).toBe(0);
    second.open();
    expect(await sent.result()).toBe(2);
  });

  it.each(['commit', 'begin'] as const)(
    'whose worker loses its connection to the broker runs once: ackOn %s',
    async ackOn => {
      const proxy = await TcpProxy.to(rabbitmqUrl());
      onTestFinished(() => proxy.close());
      const own = connect({ url: proxy.url(rabbitmqUrl()), ackOn });
      onTestFinished(() => own.close());
      const echo = makeEcho();
      const { queue } = echo.contract;
      const finish = gate();
      let runs = 0;
      const run = async (): Promise<number> => {
        runs += 1;
        await finish.opened;
        return runs;
      };
      const sent = [await outlast.push(echo, 0), await outlast.push(echo, 1)] as const;
      await workWith({ concurrency: 1 }, own, [own.handler(echo, run)]);
      await until(async () => runs === 1);
      // It may hold one message. With `begin` the first is acknowledged while it runs, and the second is here.
      const left = ackOn === 'commit' ? 1 : 0;
      await until(async () => (await rabbit.depth(queue)) === left);
      await proxy.close();
      await until(async () => (await rabbit.consumers(queue)) === 0);
      // The unacknowledged message is back in the queue.
      expect(await rabbit.depth(queue)).toBe(left + 1);
      finish.open();
      expect(await sent[0].result()).toBe(1);
      await work(outlast, outlast.handler(echo, run));
      expect(await sent[1].result()).toBe(2);
      await until(() => isDrained(queue));
      expect(runs).toBe(2);
    },
  );

  it('sent three times runs once', async () => {
    const echo = makeEcho();
    let runs = 0;
    const id = unique('task');
    for (let copy = 0; copy < 3; copy++) await outlast.push(echo, 5, { id });
    await work(
      outlast,
      outlast.handler(echo, () => (runs += 1)),
    );
    expect(await outlast.find(echo, id).result()).toBe(1);
    await until(() => isDrained(echo.contract.queue));
    expect(runs).toBe(1);
  });

  it('with an eta is parked in the ledger, and no worker holds its message', async () => {
    const echo = makeEcho();
    const { queue } = echo.contract;
    const pushed = await outlast.push(echo, 1, { countdown: '1h' });
    const tasks = [outlast.handler(echo, value => value)];
    const worker = await startWorker(outlast, { tasks, queues: [queue] });
    await until(async () => (await pushed.state()) === 'waiting');
    await until(() => isDrained(queue));
    // A held message would be back.
    await worker.stop();
    await until(async () => (await rabbit.consumers(queue)) === 0);
    expect(await rabbit.depth(queue)).toBe(0);
  });
});

describe('queues with weights', () => {
  it.each(['commit', 'begin'] as const)('are consumed by weight: ackOn %s', async ackOn => {
    const own = connect({ ackOn });
    onTestFinished(() => own.close());
    const [heavy, light] = [makeEcho(), makeEcho()];
    for (let n = 0; n < 40; n++)
      await Promise.all([outlast.push(heavy, n), outlast.push(light, n)]);
    const order: string[] = [];
    const handlers = [heavy, light].map(echo =>
      own.handler(echo, (_input, { id }) => {
        order.push(echo.name);
        return id;
      }),
    );
    const queues = { [heavy.contract.queue]: 9, [light.contract.queue]: 1 };
    const worker = await startWorker(own, { tasks: handlers, queues, concurrency: 2 });
    onTestFinished(() => worker.stop());
    await until(async () => order.length === 80);
    // 27 on average.
    const first = order.slice(0, 30).filter(name => name === heavy.name);
    expect(first.length).toBeGreaterThan(18);
  });
});

describe.each(['classic', 'quorum'] as const)('several %s queues', queueType => {
  const SLOTS = 12;

  /** Tasks of three queues that run until the test ends them. */
  async function setup(counts: readonly number[]) {
    const own = connect({ queueType });
    onTestFinished(() => own.close());
    const echoes = counts.map(makeEcho);
    const queues = echoes.map(echo => echo.contract.queue);
    const running = new Map<string, () => void>();
    let isOver = false;
    const handlers = echoes.map(echo =>
      own.handler(echo, async (_input, { id }) => {
        if (isOver) return;
        await new Promise<void>(resolve => running.set(`${id} ${echo.name}`, resolve));
      }),
    );
    const push = (index: number, count: number) =>
      Promise.all(
        Array.from({ length: count }, () => own.push(echoes[index] as (typeof echoes)[0], 0)),
      );
    for (const [index, count] of counts.entries()) await push(index, count);
    await workWith({ concurrency: SLOTS }, own, handlers);
    onTestFinished(() => {
      isOver = true;
      for (const end of running.values()) end();
    });
    const runningOf = (index: number): readonly string[] =>
      [...running.keys()].filter(key => key.endsWith(` ${echoes[index]?.name}`));
    return {
      running,
      push,
      runningOf,
      end: (keys: readonly string[]) => {
        for (const key of keys) running.get(key)?.();
        for (const key of keys) running.delete(key);
      },
      waiting: async () => {
        const depths = await Promise.all(queues.map(queue => rabbit.depth(queue)));
        return depths.reduce<number>((sum, depth) => sum + (depth ?? 0), 0);
      },
    };
  }

  it('share the concurrency of the process, and none of them starves', async () => {
    const sent = 3 * 30;
    const { running, runningOf, end, waiting } = await setup([30, 30, 30]);
    const seen = new Set<number>();
    for (let ended = 0; ended < 60; ended += 5) {
      await until(async () => running.size === SLOTS);
      // The running ones, and two messages of each queue; several looks, for consumers that are still being opened.
      for (let look = 0; look < 5; look++)
        expect(sent - ended - (await waiting())).toBeLessThanOrEqual(SLOTS + 6);
      for (const index of [0, 1, 2]) if (runningOf(index).length > 0) seen.add(index);
      end([...running.keys()].slice(0, 5));
    }
    expect(seen.size).toBe(3);
  });

  it('leave all slots to the only one that has work, and free them for others', async () => {
    const { running, runningOf, push, end } = await setup([30, 0, 0]);
    await until(async () => running.size === SLOTS);
    await push(1, 30);
    // As tasks of the first queue end, tasks of the second get slots.
    await until(async () => {
      end(runningOf(0));
      return runningOf(1).length === SLOTS;
    });
    await push(2, 1);
    await until(async () => {
      end(runningOf(1).slice(0, 1));
      return runningOf(2).length === 1;
    });
  });
});

describe('a message that no worker can run', () => {
  it('is a dead letter with bytes, headers and reason, and the others run', async () => {
    const echo = makeEcho();
    const { name, contract } = echo;
    const { queue } = contract;
    await rabbit.with(async channel => {
      await channel.assertQueue(queue);
      const put = (headers: object, content: Buffer, contentType: string): void =>
        void channel.sendToQueue(queue, content, { headers, contentType });
      const pickle = Buffer.from([0x80, 0x04, 0x95, 0xff]);
      // The same bytes twice, as two tasks: one dead letter for each.
      put({ task: name, id: 'a' }, pickle, 'application/x-python-serialize');
      put({ task: name, id: 'b' }, pickle, 'application/x-python-serialize');
      put({ task: name }, Buffer.from('[[1], {}, {}]'), 'application/json');
      put({}, Buffer.from('{"task": "old", "id": "c"}'), 'application/json');
    });
    const sent = await outlast.transaction(tx => outlast.send(tx, echo, 'fine'));
    await work(
      outlast,
      outlast.handler(echo, value => value),
    );
    expect(await sent.result()).toBe('fine');
    expect(await deadReasons(queue, 4)).toEqual(Array(4).fill('ERR_UNDECODABLE'));
    const { items } = await createAdmin(outlast).deadLetters.list();
    const names = items.filter(item => item.queue === queue).map(item => item.name);
    expect(names.toSorted()).toEqual([name, name, name, 'unknown'].toSorted());
  });

  it('is a dead letter beside its task when its bytes are not those that were sent', async () => {
    const echo = makeEcho();
    const { queue } = echo.contract;
    const sent = await outlast.push(echo, 'sent');
    const { properties, content } = await until(() => rabbit.peek(queue));
    const forged = Buffer.from(content.toString().replace('sent', 'made'));
    await rabbit.with(async channel => {
      const { headers, contentType } = properties as unknown as {
        headers: object;
        contentType: string;
      };
      channel.sendToQueue(queue, forged, { headers, contentType });
    });
    await work(
      outlast,
      outlast.handler(echo, value => value),
    );
    expect(await sent.result()).toBe('sent');
    expect(await deadReasons(queue, 1)).toEqual(['ERR_DIGEST']);
  });
});

describe('a row that the broker refuses', () => {
  it('spends its own retries and becomes a dead letter while the others arrive', async () => {
    const own = await migratedDatabase('unroutable');
    onTestFinished(() => own.dispose());
    const sending = createOutlast({
      database: own.url,
      broker: rabbitmqUrl(),
      adapter: fromPg(own.pool),
    });
    onTestFinished(() => sending.close());
    const echo = makeEcho();
    const missing = { celery: { exchange: 'missing' } };
    const [bad, ...good] = await sending.transaction(tx =>
      sending.sendMany(tx, [echo.with(1, missing), echo.with(2), echo.with(3)]),
    );
    const impatient = await startRelay(sending, { maxRetries: 1, publishConcurrency: 10 });
    onTestFinished(() => impatient.stop());
    const letter = await until(() => createAdmin(sending).deadLetters.show(bad.id));
    expect(JSON.stringify(letter)).toContain("no exchange 'missing'");
    await until(async () => (await rabbit.depth(echo.contract.queue)) === good.length);
  });
});

describe('a push', () => {
  it('distinguishes an unreachable broker from one that refuses the task', async () => {
    const echo = makeEcho();
    const away = connect({ url: 'amqp://127.0.0.1:1' });
    onTestFinished(() => away.close());
    await expect(away.push(echo, 1)).rejects.toMatchObject({ code: 'ERR_BROKER_UNAVAILABLE' });
    const nowhere = { celery: { exchange: 'missing' } };
    await expect(outlast.push(echo, 1, nowhere)).rejects.toMatchObject({ code: 'ERR_UNROUTABLE' });
  });
});

describe('an unreachable ledger in Redis', () => {
  it('keeps workers from starting, and no application from sending', async () => {
    const own = createOutlast({
      database: database.url,
      broker: rabbitmqUrl(),
      ledger: 'redis://127.0.0.1:1',
      adapter: fromPg(database.pool),
    });
    onTestFinished(() => own.close());
    const echo = makeEcho();
    const away = { code: 'ERR_STORE_UNAVAILABLE' };
    const started = startWorker(own, { tasks: [own.handler(echo, () => 1)] });
    await expect(started).rejects.toMatchObject(away);
    const pushed = await own.push(echo, 1);
    await expect(pushed.state()).rejects.toMatchObject(away);
    expect(await rabbit.depth(echo.contract.queue)).toBe(1);
  });
});
