import type { PoolClient } from 'pg';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { fromPg } from '../../src/adapters/transactions/pg.ts';
import { inLockOrder, type NewTask } from '../../src/outbox/outbox-writer.ts';
import { task, type Call, type SendOptions } from '../../src/task/define-task.ts';
import { createOutlast } from '../../src/app/create-outlast.ts';
import type { Outlast } from '../../src/app/outlast.ts';
import {
  gate,
  migratedDatabase,
  migratedMariadb,
  until,
  type MigratedDatabase,
  type MigratedMariadb,
} from '../support/database.ts';
import { DRIVERS, type Driver, type DriverConnection } from '../support/mysql-drivers.ts';

const charge = task('order.charge');
const FIRST = ['a', 'm', 'b'];
const SECOND = ['b', 'm', 'a'];

/**
 * Two transactions send the same tasks in opposite orders, while a third one holds the task in the middle: each holds
 * what it named first, and then wants what the other holds. Returns which tasks were new to each.
 */
async function crosswise<Tx>(
  outlast: Outlast<Tx>,
  optionsOf: (name: string) => SendOptions,
  areWaiting: () => Promise<boolean>,
): Promise<readonly (readonly boolean[])[]> {
  const calls = (names: readonly string[]): readonly Call[] =>
    names.map(name => charge.with(undefined, optionsOf(name)));
  const [sent, end] = [gate(), gate()];
  const middle = outlast.transaction(async tx => {
    await outlast.sendMany(tx, calls(['m']));
    sent.open();
    await end.opened;
  });
  await sent.opened;
  const both = [FIRST, SECOND].map(names =>
    outlast.transaction(async tx => await outlast.sendMany(tx, calls(names))),
  );
  // Both must wait before the third one commits: otherwise they might run one after the other and never meet.
  await until(areWaiting);
  end.open();
  await middle;
  const handles = await Promise.all(both);
  for (const of of handles) expect(new Set(of.map(({ id }) => id)).size).toBe(3);
  return handles.map(of => of.map(({ isNew }) => isNew));
}

/** One of them wrote the two remaining tasks, the other found all three. */
const ONE_HAS_BOTH = [
  [false, false, false],
  [true, false, true],
];

const CHOSEN: readonly {
  readonly what: string;
  readonly optionsOf: (name: string) => SendOptions;
}[] = [
  { what: 'ids', optionsOf: name => ({ id: `id-${name}` }) },
  { what: 'idempotency keys', optionsOf: name => ({ idempotencyKey: `key-${name}` }) },
  { what: 'ordering keys', optionsOf: name => ({ id: `${name}-id`, orderingKey: `key-${name}` }) },
];

describe('two transactions that send the same tasks in opposite orders wait for each other without a deadlock,', () => {
  let postgres: MigratedDatabase;
  let mariadb: MigratedMariadb;
  let driver: Driver;
  let outlast: Outlast<PoolClient>;
  let outlastOnMariadb: Outlast<DriverConnection>;

  beforeAll(async () => {
    postgres = await migratedDatabase('crosswise');
    outlast = createOutlast({ database: postgres.url, adapter: fromPg(postgres.pool) });
    mariadb = await migratedMariadb('crosswise');
    driver = (DRIVERS['mysql2'] as (typeof DRIVERS)[string])(mariadb.url);
    outlastOnMariadb = createOutlast({
      database: postgres.url,
      outboxes: { crm: { database: mariadb.url } },
      outbox: 'crm',
      adapter: driver.adapter,
    });
  });

  afterAll(async () => {
    await Promise.all([outlast.close(), outlastOnMariadb.close(), driver.close()]);
    await Promise.all([postgres.dispose(), mariadb.dispose()]);
  });

  it.each(CHOSEN)('by $what on PostgreSQL', async ({ optionsOf }) => {
    const areWaiting = async (): Promise<boolean> => {
      const { rowCount } = await postgres.pool.query(
        `select 1 from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'`,
      );
      return rowCount === 2;
    };
    const isNewTo = await crosswise(outlast, optionsOf, areWaiting);
    expect(isNewTo.toSorted((a, b) => Number(a[0]) - Number(b[0]))).toEqual(ONE_HAS_BOTH);
  });

  it.each(CHOSEN)('by $what on MariaDB', async ({ optionsOf }) => {
    const rowsOf = async (text: string): Promise<Record<string, unknown>[]> =>
      (await mariadb.pool.query(text))[0] as Record<string, unknown>[];
    const areWaiting = async (): Promise<boolean> => {
      const ours = await rowsOf(
        'select id from information_schema.processlist where db = database()',
      );
      // The tables about transactions are up to 100 ms old while they are read often: this text is not.
      const [{ Status: text } = {}] = await rowsOf('show engine innodb status');
      const waiting = String(text)
        .split('---TRANSACTION')
        .filter(part => part.includes('LOCK WAIT'))
        .map(part => / thread id (\d+)/.exec(part)?.[1]);
      return ours.filter(({ id }) => waiting.includes(String(id))).length === 2;
    };
    const isNewTo = await crosswise(outlastOnMariadb, optionsOf, areWaiting);
    expect(isNewTo.toSorted((a, b) => Number(a[0]) - Number(b[0]))).toEqual(ONE_HAS_BOTH);
  });
});

describe('the order of locks', () => {
  const made = (id: string, rest: Partial<NewTask> = {}): NewTask =>
    ({ id, isIdDrawn: false, idempotencyKey: null, orderingKey: null, ...rest }) as NewTask;
  const idsOf = (tasks: readonly NewTask[]): string => tasks.map(({ id }) => id).join(' ');

  it('is by key, then by id, and leaves tasks that no other sender can name where they are', () => {
    const tasks = [
      made('b'),
      made('drawn-2', { isIdDrawn: true }),
      made('x', { idempotencyKey: 'k2' }),
      made('ordered', { orderingKey: 'o' }),
      made('drawn-1', { isIdDrawn: true }),
      made('a'),
      made('y', { idempotencyKey: 'k1', isIdDrawn: true }),
    ];
    expect(idsOf(inLockOrder(tasks))).toBe('y drawn-2 x ordered drawn-1 a b');
  });

  it('leaves a key to the first task that names it, and an id as well', () => {
    const twins = [
      made('z', { idempotencyKey: 'k', isIdDrawn: true }),
      made('y', { idempotencyKey: 'k', isIdDrawn: true }),
    ];
    expect(idsOf(inLockOrder(twins))).toBe('z y');
    const [first, second] = [made('a', { digest: '1' }), made('a', { digest: '2' })];
    expect(inLockOrder([made('b'), first, second])).toEqual([first, second, made('b')]);
  });

  it('is by bytes, as in the database', () => {
    const keys = ['\u{1F600}', '\uFF5E', 'a', 'B', 'ä'];
    const tasks = keys.map(key => made(key, { idempotencyKey: key }));
    expect(idsOf(inLockOrder(tasks))).toBe('B a ä \uFF5E \u{1F600}');
  });
});
