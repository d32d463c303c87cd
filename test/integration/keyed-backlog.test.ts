import type { RowDataPacket } from 'mysql2/promise';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { MysqlDatabase } from '../../src/adapters/mysql/mysql-database.ts';
import { MysqlOutboxStore } from '../../src/adapters/mysql/mysql-outbox-store.ts';
import { PgDatabase } from '../../src/adapters/postgres/pg-database.ts';
import { PostgresOutboxStore } from '../../src/adapters/postgres/postgres-outbox-store.ts';
import type { OutboxRow, OutboxStore } from '../../src/outbox/outbox-store.ts';
import {
  migratedDatabase,
  migratedMariadb,
  type MigratedDatabase,
  type MigratedMariadb,
} from '../support/database.ts';

/** Rows under one key; and as many again under a tenth as many keys, and without a key. */
const ROWS = 20_000;
const KEYS = ROWS / 10;
const LIMIT = 100;
/** Rows and entries of indexes that a step may read for each row of a full batch. */
const MOST = 50 * LIMIT;
const PATIENCE_MS = 120_000;

const COLUMNS = `task_id, task_name, queue, priority, args, kwargs, embed, options, digest, schema_version, payload_version`;
const REST = `'some', 'default', 0, '[]', '{}', '{}', '{}', '', 2, 1`;

/** A database of one session, and what its server has read of the outbox so far. */
interface Fixture {
  readonly store: OutboxStore;
  readonly fill: (prefix: string, key: string) => Promise<void>;
  readonly empty: () => Promise<void>;
  readonly read: () => Promise<number>;
}

let postgres: MigratedDatabase;
let pg: PgDatabase;
let mariadb: MigratedMariadb;
let mysql: MysqlDatabase;

beforeAll(async () => {
  [postgres, mariadb] = await Promise.all([migratedDatabase('keyed'), migratedMariadb('keyed')]);
  pg = await PgDatabase.open({ url: postgres.url, poolSize: 1, queryTimeoutMs: 60_000 });
  mysql = await MysqlDatabase.open({ url: mariadb.url, poolSize: 1, queryTimeoutMs: 60_000 });
}, PATIENCE_MS);

afterAll(async () => {
  await Promise.all([pg.close(), mysql.close()]);
  await Promise.all([postgres.dispose(), mariadb.dispose()]);
});

describe('PostgreSQL', () =>
  suite(() => ({
    store: new PostgresOutboxStore(pg, { movesIntoLedger: false, monotonic: () => 0 }),
    fill: async (prefix, key) => {
      await pg.query(
        `insert into outlast_outbox (${COLUMNS}, available_at, ordering_key)
         select '${prefix}' || n, ${REST}, now(), ${key} from generate_series(1, ${ROWS}) n`,
      );
    },
    empty: async () => {
      await pg.query('truncate outlast_outbox');
    },
    read: async () => {
      await pg.query('select pg_stat_force_next_flush()');
      const [row] = await pg.query(
        `select (select sum(seq_tup_read) + sum(idx_tup_fetch) from pg_stat_user_tables where relname = 'outlast_outbox')::text as read`,
      );
      return Number(row?.['read']);
    },
  })));

describe('MariaDB', () =>
  suite(() => ({
    store: new MysqlOutboxStore(mysql, () => 0),
    fill: async (prefix, key) => {
      await mysql.query(
        `insert into outlast_outbox (${COLUMNS}, available_at, error_history, created_at, updated_at, ordering_key)
         with recursive hundred (i) as (select 0 union all select i + 1 from hundred where i < 199)
         select concat('${prefix}', n), ${REST}, utc_timestamp(6), '', utc_timestamp(6), utc_timestamp(6), ${key}
         from (select a.i * 200 + b.i + 1 as n from hundred a cross join hundred b where a.i < ${ROWS / 200}) numbers order by n`,
      );
    },
    empty: async () => {
      await mysql.query('truncate outlast_outbox');
    },
    read: async () => {
      const rows = (await mysql.query(
        `show session status like 'Handler_read%'`,
      )) as unknown as RowDataPacket[];
      return rows.reduce((sum, row) => sum + Number(row['Value']), 0);
    },
  })));

function suite(make: () => Fixture): void {
  let fixture: Fixture;
  let tokens = 0;

  beforeAll(() => void (fixture = make()));

  /** What a step reads of the outbox. */
  async function reads(step: () => Promise<unknown>): Promise<number> {
    const from = await fixture.read();
    await step();
    return (await fixture.read()) - from;
  }

  async function claim(): Promise<{ token: string; rows: readonly OutboxRow[] }> {
    const token = `t${++tokens}`;
    const rows = await fixture.store.claim({ relay: 'r', token, limit: LIMIT, staleMs: 60_000 });
    return { token, rows };
  }

  async function publish({ token, rows }: Awaited<ReturnType<typeof claim>>): Promise<void> {
    await fixture.store.settlePublished(
      token,
      rows.map(({ row }) => row),
    );
  }

  it('does not walk over a backlog under one key, whether its first row may go or is on its way', async () => {
    await fixture.store.beat('r', 600_000);
    await fixture.empty();
    await fixture.fill('one', `'key'`);
    let claimed = await claim();
    for (let turn = 0; turn < 3; turn++) {
      expect(await reads(() => publish(claimed))).toBeLessThan(MOST);
      expect(await reads(() => fixture.store.nextDueMs())).toBeLessThan(MOST);
      const read = await reads(async () => (claimed = await claim()));
      expect(claimed.rows.map(({ envelope }) => envelope.id)).toEqual([`one${turn + 2}`]);
      expect(read).toBeLessThan(MOST);
    }
    expect(await reads(async () => expect((await claim()).rows).toEqual([]))).toBeLessThan(MOST);
    expect(await fixture.store.nextDueMs()).toBeNull();
  });

  it('gives every key its turn, and rows without a key half of each claim', async () => {
    await fixture.empty();
    await fixture.fill('many', `concat('key', ${'n % ' + String(KEYS)})`);
    await fixture.fill('plain', 'null');
    const firsts = new Set<string>();
    const half = LIMIT / 2;
    for (let turn = 0; turn < KEYS / half; turn++) {
      let claimed = { token: '', rows: [] as readonly OutboxRow[] };
      expect(await reads(async () => (claimed = await claim()))).toBeLessThan(MOST);
      const keyed = claimed.rows.filter(({ envelope }) => envelope.id.startsWith('many'));
      expect([claimed.rows.length, keyed.length]).toEqual([LIMIT, half]);
      for (const { envelope } of keyed) firsts.add(envelope.id);
      await publish(claimed);
    }
    expect([...firsts].filter(id => Number(id.slice(4)) <= KEYS)).toHaveLength(KEYS);
  });
}
