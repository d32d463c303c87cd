import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { PostgresDatabase } from '../../src/adapters/postgres/postgres-database.ts';
import { PgDatabase } from '../../src/adapters/postgres/pg-database.ts';
import { PostgresLedger } from '../../src/adapters/postgres/postgres-ledger.ts';
import { SQL } from '../../src/adapters/postgres/sql.generated.ts';
import type { BegunTask } from '../../src/ledger/ledger.ts';
import { migratedDatabase, type MigratedDatabase } from '../support/database.ts';

const LEASE_MS = 600_000;
/** Of the parameters of `begin-due`. */
const FLOORS = 8;

let database: MigratedDatabase;
let db: PgDatabase;
/** The parameters of every look for due tasks. */
const looks: unknown[][] = [];

beforeAll(async () => {
  database = await migratedDatabase('begin_plans');
  db = await PgDatabase.open({ url: database.url, poolSize: 2, queryTimeoutMs: 60_000 });
});

afterAll(async () => {
  await db.close();
  await database.dispose();
});

const recorded = (): PostgresDatabase =>
  new Proxy(db, {
    get: (target, key) => {
      const value: unknown = Reflect.get(target, key, target);
      if (key !== 'query') return value;
      return (text: string, values?: unknown[]) => {
        if (text === SQL.beginDue) looks.push(values ?? []);
        return target.query(text, values as never);
      };
    },
  });

interface Planted {
  readonly queue: string;
  readonly count: number;
  readonly priority?: number;
  readonly secondsAgo?: number;
}

async function plant({ queue, count, priority = 5, secondsAgo = 0 }: Planted): Promise<void> {
  await database.pool.query(
    `insert into outlast_task (id, name, queue, priority, payload_version, body, options, digest, state, due)
     select gen_random_uuid()::text, 'some', $1, $2, 1, '[[],{},{}]', '{}', 'd', 'waiting', now() - $4::int * interval '1 second'
     from generate_series(1, $3::int)`,
    [queue, priority, count, secondsAgo],
  );
}

/** A worker of its own on these queues. */
async function openLedger(name: string, queues: readonly string[]) {
  const ledger = new PostgresLedger(recorded());
  await ledger.open({ worker: name, process: name, host: 'h', pid: 1, leaseMs: LEASE_MS });
  let run = 0;
  const begin = async (limit: number): Promise<readonly BegunTask[]> => {
    const asked = { worker: name, run: `${name}${run++}`, queues, limit, suspects: 1 };
    const reply = await ledger.begin({
      ...asked,
      messages: [],
      crashBudgets: { '*': 5 },
      isFirst: true,
    });
    return reply.status === 'open' ? reply.begun : [];
  };
  const commit = async (tasks: readonly BegunTask[]): Promise<void> => {
    const outcome = { kind: 'done', result: null } as const;
    const terms = { outcome, after: [], dedupMs: 0, resultMs: 0 };
    await ledger.commit(tasks.map(ref => ({ ref, ...terms })));
  };
  return { ledger, begin, commit };
}

interface Plan {
  readonly 'Node Type': string;
  readonly 'Relation Name'?: string;
  readonly 'Shared Hit Blocks': number;
  readonly 'Shared Read Blocks': number;
  readonly Plans?: readonly Plan[];
}

/** The plan of a look with these parameters; it is rolled back. */
async function planOf(values: readonly unknown[], text: string = SQL.beginDue): Promise<Plan> {
  const client = await database.pool.connect();
  try {
    await client.query('begin');
    const { rows } = await client.query<{ 'QUERY PLAN': { Plan: Plan }[] }>(
      `explain (analyze, buffers, format json) ${text}`,
      [...values],
    );
    return rows[0]?.['QUERY PLAN'][0]?.Plan as Plan;
  } finally {
    await client.query('rollback');
    client.release();
  }
}

const pagesOf = (plan: Plan): number => plan['Shared Hit Blocks'] + plan['Shared Read Blocks'];

const nodesOf = (plan: Plan): readonly Plan[] => [plan, ...(plan.Plans ?? []).flatMap(nodesOf)];

describe('a look for due tasks', () => {
  it.each([2, 12, 100])(
    'takes queues in the order in which they are given, and the most urgent of each first: %i queues',
    async count => {
      const queues = Array.from({ length: count }, (_, n) => `order-${count}-${n}`);
      for (const queue of queues.slice(1)) await plant({ queue, count: 20, priority: 9 });
      await plant({ queue: queues[0] as string, count: 3, priority: 0 });
      await plant({ queue: queues[0] as string, count: 2, priority: 4 });
      await database.pool.query('analyze outlast_task');
      const { begin } = await openLedger(`order-${count}`, queues);
      const begun = await begin(10);
      expect(begun.map(({ envelope }) => [envelope.queue, envelope.priority])).toEqual([
        ...Array.from({ length: 2 }, () => [queues[0], 4]),
        ...Array.from({ length: 3 }, () => [queues[0], 0]),
        ...Array.from({ length: 5 }, () => [queues[1], 9]),
      ]);
    },
  );

  it('reads the table by its indexes, however many queues there are and however many tasks are over', async () => {
    await database.pool.query(
      `insert into outlast_task (id, name, queue, priority, payload_version, body, options, digest, state, ending, ended_at, keep_until)
       select gen_random_uuid()::text, 'some', 'over-' || n % 100, 5, 1, '', '{}', 'd', 'done', 'done', now(), now() + interval '1 day'
       from generate_series(1, 20000) n`,
    );
    const queues = Array.from({ length: 100 }, (_, n) => `over-${n}`);
    for (const queue of queues.slice(50)) await plant({ queue, count: 40 });
    await database.pool.query('analyze outlast_task');
    const { begin } = await openLedger('over', queues);
    expect(await begin(100)).toHaveLength(100);
    const plan = await planOf(looks.at(-1) as unknown[]);
    const scans = nodesOf(plan).filter(node => node['Relation Name'] === 'outlast_task');
    expect(scans.map(node => node['Node Type'])).not.toContain('Seq Scan');
  });
});

describe('a foreign transaction that stays open', () => {
  it('does not make each look slower than the one before', async () => {
    const foreign = await database.pool.connect();
    try {
      await foreign.query('begin isolation level repeatable read');
      await foreign.query('select count(*) from outlast_task');
      const { begin, commit } = await openLedger('snapshot', ['snapshot']);
      const rounds = 20;
      for (let round = 0; round < rounds; round++) {
        await plant({ queue: 'snapshot', count: 500, secondsAgo: 15 * (rounds - round) });
        const begun = await begin(500);
        expect(begun).toHaveLength(500);
        await commit(begun);
      }
      await plant({ queue: 'snapshot', count: 50 });
      // Now and then a look is from the beginning, and on a slow machine it may be just this one.
      let floors: readonly unknown[] = [];
      for (let looked = 0; looked < 10 && floors.every(floor => floor === null); looked++) {
        expect(await begin(5)).toHaveLength(5);
        floors = looks.at(-1)?.[FLOORS] as unknown[];
      }
      const last = looks.at(-1) as unknown[];
      expect(floors.filter(floor => floor !== null)).toHaveLength(1);
      const fromTheFloor = pagesOf(await planOf(last));
      const fromTheBeginning = pagesOf(
        await planOf(
          last.toSpliced(
            FLOORS,
            1,
            floors.map(() => null),
          ),
        ),
      );
      expect(fromTheFloor * 3).toBeLessThan(fromTheBeginning);
    } finally {
      await foreign.query('rollback');
      foreign.release();
    }
  });

  it('does not make a beat slower that need not list what is running', async () => {
    const foreign = await database.pool.connect();
    const { ledger, begin, commit } = await openLedger('beats', ['beats']);
    try {
      await foreign.query('begin isolation level repeatable read');
      await foreign.query('select count(*) from outlast_task');
      await plant({ queue: 'beats', count: 5_000 });
      for (let round = 0; round < 10; round++) await commit(await begin(500));
      const pages = async (listsRuns: boolean): Promise<number> =>
        pagesOf(await planOf(['beats', listsRuns], SQL.renew));
      const [beat, list] = [await pages(false), await pages(true)];
      expect(beat * 10).toBeLessThan(list);
      await plant({ queue: 'beats', count: 1 });
      const [task] = await begin(1);
      expect(await ledger.renew('beats', false)).toEqual({ status: 'open', runs: null });
      expect(await ledger.renew('beats')).toMatchObject({ runs: [{ id: task?.id }] });
    } finally {
      await foreign.query('rollback');
      foreign.release();
    }
  });

  it('hides no task that was committed late or given back', async () => {
    const { ledger, begin } = await openLedger('late', ['late']);
    await plant({ queue: 'late', count: 1 });
    expect(await begin(10)).toHaveLength(1);
    await plant({ queue: 'late', count: 1, secondsAgo: 3_600 });
    const early = await begin(10);
    expect(early).toHaveLength(1);
    await plant({ queue: 'late', count: 1 });
    await ledger.release(early);
    expect((await begin(10)).map(({ id }) => id)).toContain(early[0]?.id);
  });
});
