import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { PoolClient } from 'pg';
import { type PGliteDatabase } from '../../src/adapters/pglite/pglite-database.ts';
import { migrate } from '../../src/adapters/postgres/migrate.ts';
import { fromPg } from '../../src/adapters/transactions/pg.ts';
import { task } from '../../src/task/define-task.ts';
import { unchecked } from '../../src/task/standard-schema.ts';
import { createOutlast, createOutlastOn } from '../../src/app/create-outlast.ts';
import { CONTEXT, type Outlast } from '../../src/app/outlast.ts';
import { startRelay } from '../../src/app/start-services.ts';
import { openContext } from '../../src/context/context.ts';
import { OPENERS } from '../../src/context/openers.ts';
import { postgresDatabase } from '../../src/adapters/postgres/dialect.ts';
import type { OutboxDatabase } from '../../src/adapters/sql/dialect.ts';
import { gate, migratedDatabase, until, type MigratedDatabase } from '../support/database.ts';
import { openEmbeddedDatabase } from '../support/embedded.ts';

const step = task('ordering.step', {
  input: unchecked<{ order: string; n: number }>(),
  ordering: { key: input => input.order },
});
const loose = task('ordering.loose', {
  input: unchecked<{ order: string; n: number }>(),
  ordering: { key: input => input.order, whenDead: 'go-on' },
});
const plain = task('ordering.plain', { input: unchecked<number>() });

let database: MigratedDatabase;
let outlast: Outlast<PoolClient>;

beforeAll(async () => {
  database = await migratedDatabase('ordering');
  outlast = createOutlast({ database: database.url, adapter: fromPg(database.pool) });
});

afterAll(async () => {
  await outlast.close();
  await database.dispose();
});

interface Row {
  readonly task_id: string;
  readonly ordering_key: string | null;
  readonly parks_key: boolean;
  readonly schema_version: number;
}

const rowsOf = async (key: string): Promise<readonly Row[]> => {
  const text = 'select * from outlast_outbox where ordering_key = $1 order by id';
  return (await database.pool.query<Row>(text, [key])).rows;
};

/** How many sessions wait for a lock that another transaction holds. */
const waiting = async (): Promise<number> => {
  const text = `select 1 from pg_locks where locktype = 'advisory' and not granted
    and database = (select oid from pg_database where datname = current_database())`;
  return (await database.pool.query(text)).rowCount ?? 0;
};

describe('rows with an ordering key', () => {
  it('store the key, the whenDead choice and their own row format; tasks without one need no row', async () => {
    const sent = await outlast.transaction(tx =>
      outlast.sendMany(tx, [
        step.with({ order: 'columns', n: 1 }),
        loose.with({ order: 'columns', n: 2 }),
        plain.with(3, { orderingKey: 'columns' }),
        step.with({ order: 'other', n: 4 }, { orderingKey: 'columns' }),
        plain.with(5),
      ]),
    );
    expect((await rowsOf('columns')).map(row => [row.task_id, row.parks_key])).toEqual([
      [sent[0].id, true],
      [sent[1].id, false],
      [sent[2].id, true],
      [sent[3].id, true],
    ]);
    expect((await rowsOf('columns')).every(row => row.schema_version === 2)).toBe(true);
    const text = 'select task_id from outlast_outbox where task_id = $1';
    expect((await database.pool.query(text, [sent[4].id])).rowCount).toBe(0);
    expect(await outlast.find(plain, sent[4].id).state()).toBe('waiting');
  });

  it('wait for the transaction that holds their key, and rows with other keys do not', async () => {
    const [sentFirst, mayCommit] = [gate<string>(), gate()];
    const first = outlast.transaction(async tx => {
      sentFirst.open((await outlast.send(tx, step, { order: 'held', n: 1 })).id);
      await mayCommit.opened;
    });
    const firstId = await sentFirst.opened;
    const second = outlast.transaction(tx => outlast.send(tx, step, { order: 'held', n: 2 }));
    await until(waiting);
    await outlast.transaction(tx => outlast.send(tx, step, { order: 'free', n: 1 }));
    await outlast.transaction(tx => outlast.send(tx, plain, 1));
    expect(await waiting()).toBe(1);
    expect(await rowsOf('held')).toEqual([]);
    mayCommit.open();
    await first;
    const secondId = (await second).id;
    expect((await rowsOf('held')).map(row => row.task_id)).toEqual([firstId, secondId]);
  });

  it('leave the key free when their transaction is rolled back', async () => {
    const gone = outlast.transaction(async tx => {
      await outlast.send(tx, step, { order: 'rolled-back', n: 1 });
      throw new Error('rolled back');
    });
    await expect(gone).rejects.toThrow('rolled back');
    const sent = await outlast.transaction(tx =>
      outlast.send(tx, step, { order: 'rolled-back', n: 2 }),
    );
    expect((await rowsOf('rolled-back')).map(row => row.task_id)).toEqual([sent.id]);
  });

  it('get ids in the order of their commits, however many keys a transaction names', async () => {
    const committed: { readonly id: string; readonly key: string }[] = [];
    const keys = ['many-a', 'many-b', 'many-c'];
    // Every transaction names the keys in another order: locked in that order, they would deadlock.
    const send = async (turn: number): Promise<void> => {
      const named = keys.map((_, index) => keys[(index + turn) % keys.length] ?? '');
      await outlast.transaction(async tx => {
        const sent = await outlast.sendMany(
          tx,
          named.map(order => step.with({ order, n: turn })),
        );
        await tx.query('select pg_sleep(random() * 0.01)');
        for (const [index, { id }] of sent.entries())
          committed.push({ id, key: named[index] ?? '' });
      });
    };
    await Promise.all(Array.from({ length: 8 }, (_, turn) => send(turn)));
    for (const key of keys) {
      expect((await rowsOf(key)).map(row => row.task_id)).toEqual(
        committed.filter(entry => entry.key === key).map(({ id }) => id),
      );
    }
  });
});

describe('an ordering key that cannot be kept', () => {
  const later = { countdown: '1m' } as const;

  it.each([
    ['of the contract, with a countdown', () => step.with({ order: 'x', n: 1 }, later)],
    ['of the contract, with an eta', () => step.with({ order: 'x', n: 1 }, { eta: new Date() })],
    ['of the send, with a countdown', () => plain.with(1, { orderingKey: 'x', ...later })],
  ])('%s is a typed error before anything is written', async (_, call) => {
    const answer = outlast.transaction(tx => outlast.sendMany(tx, [plain.with(0), call()]));
    await expect(answer).rejects.toMatchObject({ code: 'ERR_OPTIONS_CONFLICT' });
  });

  it('is a typed error where the task goes straight to the broker', async () => {
    await expect(outlast.push(plain, 1, { orderingKey: 'x' })).rejects.toMatchObject({
      code: 'ERR_OPTIONS_CONFLICT',
      options: ['orderingKey'],
    });
  });
});

describe('a relay', () => {
  /** A ledger that refuses one task a few times, whichever relay sends it. */
  const refuse = async (
    pool: MigratedDatabase['pool'],
    id: string,
    times: number,
  ): Promise<void> => {
    await pool.query(`create sequence if not exists refused`);
    await pool.query(`create or replace function refuse() returns trigger language plpgsql as $$
      begin
        if new.id = '${id}' and nextval('refused') <= ${times} then raise exception 'refused'; end if;
        return new;
      end $$`);
    await pool.query(
      'create or replace trigger refuse before insert on outlast_task for each row execute function refuse()',
    );
  };

  const arrived = async (
    pool: MigratedDatabase['pool'],
    ids: readonly string[],
  ): Promise<string[]> => {
    const text = 'select id from outlast_task where id = any($1) order by seq';
    return (await pool.query<{ id: string }>(text, [ids])).rows.map(row => row.id);
  };

  it('of a separate outbox publishes a key in order while its first row is refused and retried', async () => {
    const crm = await migratedDatabase('ordering-crm');
    const separate = createOutlast({
      database: database.url,
      outboxes: { crm: { database: crm.url } },
      outbox: 'crm',
      adapter: fromPg(crm.pool),
      relay: { backoffTime: '100ms', maxBackoff: '200ms', maxRetries: 10, idleTime: '100ms' },
    });
    const sent = await separate.transaction(tx =>
      separate.sendMany(tx, [
        ...Array.from({ length: 4 }, (_, n) => step.with({ order: 'separate', n })),
        plain.with(1),
      ]),
    );
    const ids = sent.map(({ id }) => id);
    await refuse(database.pool, ids[0] ?? '', 3);
    const relays = [await startRelay(separate), await startRelay(separate)];
    const all = await until(async () => {
      const found = await arrived(database.pool, ids);
      return found.length === ids.length && found;
    });
    for (const relay of relays) await relay.stop();
    expect(all.filter(id => id !== ids[4])).toEqual(ids.slice(0, 4));
    // Rows without a key did not wait for the first row.
    expect(all[0]).toBe(ids[4]);
    await separate.close();
    await crm.dispose();
  });
});

describe('an embedded database', () => {
  let db: PGliteDatabase;

  // Its first start takes long on a busy machine, and hooks have more time than tests.
  beforeAll(async () => {
    db = await openEmbeddedDatabase();
    await migrate(db);
  });

  afterAll(() => db.close());

  it('keeps the order of a key as well', async () => {
    const open = async (): Promise<OutboxDatabase> => postgresDatabase(db);
    const context = openContext(
      { database: 'pglite:./unused' },
      { env: {}, openers: { ...OPENERS, database: open } },
    );
    const stores = await context.stores();
    const embedded = createOutlastOn(context);
    const ids: string[] = [];
    await Promise.all(
      Array.from({ length: 4 }, (_, n) =>
        embedded.transaction(async tx => {
          const [one, two] = await embedded.sendMany(tx, [
            step.with({ order: 'embedded', n }),
            step.with({ order: 'embedded', n: -n }),
          ]);
          ids.push(one.id, two.id);
        }),
      ),
    );
    const moved: string[] = [];
    for (;;) {
      const reply = await stores.outbox.move?.(3);
      if (!reply || reply.rows.length === 0) break;
      moved.push(...reply.rows.map(row => row.id));
    }
    expect(moved).toEqual(ids);
  });
});

describe('a backlog under one key', () => {
  const backlog = async (order: string, count: number): Promise<readonly string[]> => {
    const calls = Array.from({ length: count }, (_, n) => step.with({ order, n }));
    const sent = await outlast.transaction(tx => outlast.sendMany(tx, calls));
    return sent.map(({ id }) => id);
  };
  /** Where workers take tasks from, in the order in which they do. */
  const inLine = async (ids: readonly string[]): Promise<readonly string[]> => {
    const text = 'select id from outlast_task where id = any($1) order by due, seq';
    return (await database.pool.query<{ id: string }>(text, [ids])).rows.map(({ id }) => id);
  };

  it('is moved in whole batches, and rows behind it are not held up', async () => {
    await database.pool.query('delete from outlast_outbox');
    const ids = await backlog('whole', 250);
    const { outbox } = await outlast[CONTEXT].stores();
    for (const size of [100, 100, 50, 0])
      expect((await outbox.move?.(100))?.rows).toHaveLength(size);
    expect(await inLine(ids)).toEqual(ids);
  });

  it('keeps its order while several relays move it', async () => {
    const ids = await backlog('several', 200);
    const { outbox } = await outlast[CONTEXT].stores();
    const relay = async (): Promise<void> => {
      while ((await rowsOf('several')).length > 0) await outbox.move?.(7);
    };
    await Promise.all([relay(), relay(), relay(), relay()]);
    expect(await inLine(ids)).toEqual(ids);
  });
});
