import { describe, expect, it, onTestFinished } from 'vitest';
import { unique } from '../conformance/envelopes.ts';
import { migratedDatabase } from '../support/database.ts';
import { startRedis } from '../support/redis-server.ts';
import { rabbitmqUrl } from '../support/servers.ts';
import {
  celeryVersion,
  endProcess,
  runCanvas,
  startCeleryWorker,
  type CeleryTarget,
} from './celery-kit.ts';
import { handlerOf, startFleetWorker } from './fleet-kit.ts';

type SetUp = 'RabbitMQ' | 'Redis' | 'RabbitMQ with rpc:// and the ledger in PostgreSQL';

/** Stamps came with Celery 5.3. */
const [major = 0, minor = 0] = celeryVersion();
const hasStamps = major > 5 || (major === 5 && minor >= 3);
const STAMPED = {
  stamps: { tenant: 'x', parts: ['a', 'b'], number: 200 },
  names: ['number', 'parts', 'tenant'],
};
const NO_STAMPS = { stamps: {}, names: [] };

/** Runs one case of `canvas.py` beside a worker of each language. */
async function run(setUp: SetUp, name: string): Promise<unknown> {
  const [ours, theirs] = [unique('ours'), unique('theirs')];
  const redis = await startRedis();
  onTestFinished(() => redis.dispose());
  const database = await migratedDatabase('canvas');
  onTestFinished(() => database.dispose());
  const isRpc = setUp.includes('rpc');
  const broker = setUp === 'Redis' ? redis.url : rabbitmqUrl();
  const target: CeleryTarget = {
    broker,
    backend: isRpc ? 'rpc://' : redis.url,
    store: redis.url,
    defaultQueue: theirs,
  };
  const numbers = (args: readonly unknown[]): number =>
    args.flat().reduce<number>((total, one) => total + Number(one), 0);
  const handlers = [
    handlerOf('ts.sum', ours, numbers),
    handlerOf('ts.total', ours, numbers),
    handlerOf('ts.same', ours, ([value]) => value),
    handlerOf(
      'ts.broken',
      ours,
      () => {
        throw Object.assign(new Error('on purpose'), { name: 'ValueError' });
      },
      { backoff: '1ms' },
    ),
  ];
  const python = await startCeleryWorker(target, [theirs]);
  onTestFinished(() => endProcess(python));
  const { node } = await startFleetWorker({
    database: database.url,
    broker,
    ledger: isRpc ? undefined : redis.url,
    handlers,
    celery: { defaultQueue: theirs },
  });
  return (await runCanvas(target, { ours, theirs, node }, [name]))[name];
}

const SHARED: readonly SetUp[] = ['RabbitMQ', 'Redis'];
const ALL: readonly SetUp[] = [...SHARED, 'RabbitMQ with rpc:// and the ledger in PostgreSQL'];

describe.each(ALL)('Python reads the children of our results, on %s', setUp => {
  it('along a chain, with collect(), graph and get_leaf()', async () => {
    // rpc:// hands out each answer once, and collect() asks for them again.
    const isRpc = setUp.includes('rpc');
    if (isRpc) expect(await run(setUp, 'children_of_a_chain_once')).toEqual([true, 6]);
    else
      expect(await run(setUp, 'children_of_a_chain')).toEqual({
        value: 6,
        children: true,
        collected: [4, 5, 6],
        graph: true,
        leaf: true,
      });
  });

  it('of a task that nothing follows: none', async () => {
    expect(await run(setUp, 'children_of_a_plain_task')).toEqual([]);
  });
});

describe.each(SHARED)('Python reads the children of our results, on %s', setUp => {
  it('of links', async () => {
    expect(await run(setUp, 'children_of_links')).toEqual({ several: [5, 6], one: [9] });
  });

  it('of a group in a chain', async () => {
    expect(await run(setUp, 'children_with_a_group')).toEqual({
      value: 11,
      body: true,
      header: true,
      values: [5, 6],
    });
  });
});

describe.each(ALL)("tasks of Celery's own on our queue, on %s", setUp => {
  it('run where they can: accumulate, map, starmap and chunks', async () => {
    expect(await run(setUp, 'accumulate')).toEqual([
      [1, 2],
      [1, 2],
      expect.stringContaining('IndexError'),
    ]);
    expect(await run(setUp, 'maps')).toEqual({
      map: [1, 'two', null],
      starmap: [3, 7, 11],
      chunks: [[3, 7], [11]],
      failing: 'builtins.ValueError: on purpose',
    });
  });

  it('fail with the reason where they cannot', async () => {
    const refused = expect.stringMatching(/NotImplementedError: celery\.\w+ is not run/) as string;
    expect(await run(setUp, 'builtins')).toEqual({
      chain: refused,
      group: refused,
      chord: refused,
      chunks: refused,
    });
  });
});

describe.each(SHARED)("tasks of Celery's own in workflows, on %s", setUp => {
  it('go on: a map in a chain, and backend_cleanup', async () => {
    expect(await run(setUp, 'map_in_a_chain')).toBe(10);
    expect(await run(setUp, 'backend_cleanup')).toBeNull();
  });

  it('complete what Python replaced with a group, inside of a chain and at its end', async () => {
    expect(await run(setUp, 'replaced_by_a_group')).toEqual([5, [2, 3], 3]);
  });

  it('count a part that Python added to a running chord', async () => {
    expect(await run(setUp, 'added_to_a_chord')).toEqual([
      [1, 2, 20],
      [1, 2, 20],
    ]);
  });
});

describe.each(SHARED)('workflows in one another, on %s', setUp => {
  it('are chords in chords that a worker of ours sends, and end with a part that fails', async () => {
    expect(await run(setUp, 'nested_chords')).toEqual([
      [11, 2],
      expect.stringContaining('on purpose'),
    ]);
  });

  it('are chords that replace a part of a chord or a group', async () => {
    expect(await run(setUp, 'replaced_by_a_chord')).toEqual([
      [2, 7],
      [2, 7],
      [2, [3, 4]],
    ]);
  });

  it('have the links of a chain that ends in a group sent by each member', async () => {
    expect(await run(setUp, 'links_of_a_last_group')).toEqual([2, 2]);
  });
});

describe.each(SHARED)('headers that Python gave to a step, on %s', setUp => {
  it('come to it as the values they were', async () => {
    expect(await run(setUp, 'headers_of_a_step')).toEqual({
      n: 200,
      negative: -300,
      large: 2 ** 40,
      float: 1.5,
      flag: true,
      none: null,
      deep: { list: [1, -7, 'é'] },
    });
  });
});

describe.runIf(hasStamps).each(SHARED)('stamps of Python, on %s', setUp => {
  it('are handed on through chains, links and chords, and to no other task', async () => {
    expect(await run(setUp, 'stamps')).toEqual({
      chain: STAMPED,
      chord: STAMPED,
      link: [STAMPED],
      unstamped: NO_STAMPS,
    });
  });

  it('revoke the tasks that have them', async () => {
    const answer = { ok: "headers {'batch': ['revoked']} flagged as revoked, but not terminated" };
    expect(await run(setUp, 'revoked_by_stamp')).toEqual({
      results: [expect.stringContaining('TaskRevokedError: revoked'), 2],
      said: [answer],
    });
  });
});
