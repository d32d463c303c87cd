import type { Connection, RowDataPacket } from 'mysql2/promise';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { PoolClient } from 'pg';
import { SQL as MYSQL } from '../../src/adapters/mysql/sql.generated.ts';
import { bind, type MysqlStatement } from '../../src/adapters/mysql/statement.ts';
import { SQL as POSTGRES } from '../../src/adapters/postgres/sql.generated.ts';
import { BATCH_BYTES } from '../../src/ledger/batch-limits.ts';
import {
  migratedDatabase,
  migratedMariadb,
  type MigratedDatabase,
  type MigratedMariadb,
} from '../support/database.ts';

const ROWS = 1_000_000;
/** Of the sparse table; all other rows are due an hour later. */
const DUE = 50;
const LIMIT = 100;
const FORMAT = 2;
/** For longer rows a claim returns only the length. */
const MOST_BYTES = BATCH_BYTES / LIMIT;
/** A claim reads the rows that it takes, and few more. */
const FEW = 10 * LIMIT;
const PATIENCE_MS = 300_000;

interface PlanNode {
  readonly 'Node Type': string;
  readonly 'Relation Name'?: string;
  readonly 'Index Name'?: string;
  readonly 'Actual Rows': number;
  readonly 'Actual Loops': number;
  readonly 'Rows Removed by Filter'?: number;
  readonly Plans?: readonly PlanNode[];
}

const flatten = (node: PlanNode): readonly PlanNode[] => [
  node,
  ...(node.Plans ?? []).flatMap(flatten),
];

let postgres: MigratedDatabase;
let client: PoolClient;
let mariadb: MigratedMariadb;
let connection: Connection;

// Concurrently: each keeps one core busy for a while.
beforeAll(async () => {
  await Promise.all([fillPostgres(), fillMariadb()]);
}, PATIENCE_MS);

afterAll(async () => {
  client.release();
  connection.destroy();
  await Promise.all([postgres.dispose(), mariadb.dispose()]);
});

async function fillPostgres(): Promise<void> {
  postgres = await migratedDatabase('plans');
  client = await postgres.pool.connect();
  await client.query(
    `insert into outlast_outbox (task_id, task_name, queue, priority, args, kwargs, embed, options, digest,
         schema_version, payload_version, available_at)
       select 'task-' || lpad(n::text, 7, '0'), 'plans.task', 'q' || n % 5, 0, '["x"]', '{}', '{}', '{}', md5(n::text), 1, 1,
         case when n % ${ROWS / DUE} = 0 then now() - interval '1 hour' else now() + interval '1 hour' end
           + n * interval '1 microsecond'
       from generate_series(1, ${ROWS}) n`,
  );
  await client.query('vacuum analyze outlast_outbox');
}

async function fillMariadb(): Promise<void> {
  mariadb = await migratedMariadb('plans');
  connection = await mariadb.pool.getConnection();
  // An empty table is then filled in bulk.
  await connection.query('set unique_checks = 0, foreign_key_checks = 0');
  await connection.query(
    `insert into outlast_outbox (task_id, task_name, queue, priority, args, kwargs, embed, options, digest,
         schema_version, payload_version, available_at, error_history, created_at, updated_at)
       with recursive thousand (i) as (select 0 union all select i + 1 from thousand where i < 999)
       select concat('task-', lpad(n, 7, '0')), 'plans.task', concat('q', n % 5), 0, '["x"]', '{}', '{}', '{}', md5(n), 1, 1,
         utc_timestamp(6) + interval case when n % ${ROWS / DUE} = 0 then -1 else 1 end hour + interval n microsecond,
         '', utc_timestamp(6), utc_timestamp(6)
       from (select a.i * 1000 + b.i as n from thousand a cross join thousand b) numbers`,
  );
  await connection.query('set session transaction isolation level read committed');
  await connection.query('analyze table outlast_outbox');
}

describe('a million rows in PostgreSQL', () => {
  interface Looked {
    readonly indexes: readonly string[];
    /** Rows and index entries that were read of the outbox. */
    readonly read: number;
    readonly scans: readonly string[];
  }

  /** What a statement reads; its effects are rolled back. */
  async function look(text: string, values: readonly unknown[] = []): Promise<Looked> {
    await client.query('savepoint look');
    const { rows } = await client.query<{ 'QUERY PLAN': readonly { Plan: PlanNode }[] }>(
      `explain (analyze, buffers, format json) ${text}`,
      [...values],
    );
    await client.query('rollback to look');
    const nodes = flatten(rows[0]?.['QUERY PLAN'][0]?.Plan as PlanNode);
    const isOfOutbox = (node: PlanNode): boolean =>
      node['Relation Name'] === 'outlast_outbox' || (node['Index Name'] ?? '').includes('_outbox_');
    const scans = nodes.filter(node => node['Node Type'].endsWith(' Scan')).filter(isOfOutbox);
    const readBy = (node: PlanNode): number =>
      (node['Actual Rows'] + (node['Rows Removed by Filter'] ?? 0)) * node['Actual Loops'];
    return {
      indexes: nodes
        .flatMap(node => node['Index Name'] ?? [])
        .filter(name => name.includes('outbox')),
      read: scans.reduce((sum, node) => sum + readBy(node), 0),
      scans: scans.map(node => node['Node Type']),
    };
  }

  /** Runs steps in a transaction that is always rolled back. */
  async function undone(fn: () => Promise<void>): Promise<void> {
    await client.query('begin');
    try {
      await fn();
    } finally {
      await client.query('rollback');
    }
  }

  async function rowsOf(text: string, values: readonly unknown[] = []): Promise<readonly string[]> {
    const { rows } = await client.query<{ row: string }>(text, [...values]);
    return rows.map(({ row }) => row);
  }

  const steps = (isDense: boolean): void => {
    const claimed = isDense ? LIMIT : DUE;

    it('are claimed, renewed, settled and released by index, reading few rows more than are taken', () =>
      undone(async () => {
        const claim = ['relay', 'token', LIMIT, 60_000, FORMAT, null, MOST_BYTES, null];
        const looked = await look(POSTGRES.claim, claim);
        expect(looked.indexes).toContain('outlast_outbox_plain');
        expect(looked.scans).not.toContain('Seq Scan');
        expect(looked.read).toBeLessThan(FEW);
        const rows = await rowsOf(POSTGRES.claim, claim);
        expect(rows).toHaveLength(claimed);
        for (const [text, values] of [
          [POSTGRES.settlePublished, ['token', rows]],
          [POSTGRES.settleFailed, ['token', rows, rows, rows.map(() => 1), rows.map(() => '{}')]],
          [POSTGRES.settleDead, ['token', rows, rows, rows.map(() => '{}')]],
          [POSTGRES.deferClaim, ['token', rows, rows.map(() => 1_000)]],
          [POSTGRES.renewClaim, ['token', 60_000]],
          [POSTGRES.releaseClaim, ['token']],
        ] as const) {
          const { scans, read } = await look(text, values);
          expect({ text, isSequential: scans.includes('Seq Scan') }).toEqual({
            text,
            isSequential: false,
          });
          expect(read).toBeLessThan(FEW);
        }
      }));

    it('are moved by the same index', () =>
      undone(async () => {
        const { indexes, scans, read } = await look(POSTGRES.move, [LIMIT, FORMAT, null]);
        expect(indexes).toContain('outlast_outbox_plain');
        expect(scans).not.toContain('Seq Scan');
        expect(read).toBeLessThan(FEW);
      }));

    it('are searched by index for the next due row and for stale claims', () =>
      undone(async () => {
        const due = await look(POSTGRES.outboxNextDue, [FORMAT, null]);
        expect(due.indexes).toEqual(expect.arrayContaining(['outlast_outbox_plain']));
        expect(due.read).toBeLessThan(10);
        await client.query(POSTGRES.claim, [
          'relay',
          'token',
          LIMIT,
          60_000,
          FORMAT,
          null,
          MOST_BYTES,
          null,
        ]);
        const reclaim = await look(POSTGRES.reclaim);
        expect(reclaim.indexes).toContain('outlast_outbox_claimed');
        expect(reclaim.scans).not.toContain('Seq Scan');
        expect(reclaim.read).toBeLessThan(FEW);
      }));

    it('are counted from indexes', () =>
      undone(async () => {
        const sample = await look(POSTGRES.outboxSample, [FORMAT]);
        expect(sample.scans).not.toContain('Seq Scan');
        const failing = await look(POSTGRES.outboxFailing, [5]);
        expect(failing.indexes).toContain('outlast_outbox_failing');
        expect(failing.read).toBeLessThan(FEW);
        const queues = await look(POSTGRES.outboxQueuesSampled, [10, ROWS]);
        expect(queues.scans).toEqual(['Sample Scan']);
        expect(queues.read).toBeLessThan(ROWS / 5);
      }));
  };

  describe('of which few are due', () => steps(false));

  describe('all of which are due', () => {
    beforeAll(async () => {
      // Rewrites the table with its indexes, two hours later.
      await client.query(
        `alter table outlast_outbox alter column available_at type timestamptz using available_at - interval '2 hours'`,
      );
      await client.query('vacuum analyze outlast_outbox');
    }, PATIENCE_MS);
    steps(true);
  });
});

describe('a million rows in MariaDB', () => {
  async function run(
    { text, values }: { readonly text: string; readonly values: readonly unknown[] },
    before = '',
  ): Promise<RowDataPacket[]> {
    return (await connection.query(before + text, [...values]))[0] as RowDataPacket[];
  }

  /** Runs steps in a transaction that is always rolled back. */
  async function undone(fn: () => Promise<void>): Promise<void> {
    await connection.beginTransaction();
    try {
      await fn();
    } finally {
      await connection.rollback();
    }
  }

  async function reads(): Promise<number> {
    const rows = await run({ text: `show session status like 'Handler_read%'`, values: [] });
    return rows.reduce((sum, row) => sum + Number(row['Value']), 0);
  }

  /** The rows of a statement and how many rows and entries of indexes it read for them. */
  async function look(
    statement: MysqlStatement,
    params: readonly unknown[] = [],
  ): Promise<{ readonly rows: RowDataPacket[]; readonly read: number }> {
    const bound = bind<unknown>(statement, params);
    const from = await reads();
    const rows = await run(bound);
    return { rows, read: (await reads()) - from };
  }

  /** The indexes of the outbox that a statement is planned with, and how. */
  async function planOf(
    statement: MysqlStatement,
    params: readonly unknown[] = [],
  ): Promise<readonly string[]> {
    const rows = await run(bind<unknown>(statement, params), 'explain ');
    const ofOutbox = rows.filter(row => /^(o|e|outlast_outbox)$/.test(String(row['table'])));
    return ofOutbox.map(
      row => `${String(row['table'])} ${String(row['type'])} ${String(row['key'])}`,
    );
  }

  const steps = (isDense: boolean): void => {
    const claimed = isDense ? LIMIT : DUE;

    it('are claimed, renewed, settled and released by index, reading few rows more than are taken', () =>
      undone(async () => {
        const claim = [LIMIT, FORMAT, null];
        expect(await planOf(MYSQL.claim, claim)).toContain('o range outlast_outbox_plain');
        const { rows, read } = await look(MYSQL.claim, claim);
        expect(rows).toHaveLength(claimed);
        expect(read).toBeLessThan(FEW);
        const ids = rows.map(row => row['row_id'] as number);
        for (const [statement, params] of [
          [MYSQL.claimMark, ['relay', 'token', 60_000, ids]],
          [MYSQL.claimedRows, ['token']],
          [MYSQL.renewClaim, ['token', ids, 60_000]],
          [MYSQL.settleFailed, ['token', ids[0], 'error', 1_000, 'line']],
          [MYSQL.settleDead, ['token', ids[1], 'error', 'line']],
          [MYSQL.settleDeadRow, ['token', ids[1]]],
          [MYSQL.deferClaim, ['token', ids.slice(2, 4), [1_000, 2_000]]],
          [MYSQL.settlePublished, ['token', ids.slice(0, 20)]],
          [MYSQL.releaseClaim, ['token', ids]],
        ] as const) {
          const looked = await look(statement, params);
          expect({ text: statement.text, isFew: looked.read < FEW }).toEqual({
            text: statement.text,
            isFew: true,
          });
        }
      }));

    it('are searched by index for the next due row and for stale claims', () =>
      undone(async () => {
        expect(await planOf(MYSQL.outboxNextDue, [FORMAT, null])).toContainEqual(
          expect.stringMatching(/^o (range|ref) outlast_outbox_plain$/),
        );
        expect((await look(MYSQL.outboxNextDue, [FORMAT, null])).read).toBeLessThan(20);
        const { rows } = await look(MYSQL.claim, [LIMIT, FORMAT, null]);
        const ids = rows.map(row => row['row_id'] as number);
        await look(MYSQL.claimMark, ['relay', 'token', 60_000, ids]);
        expect(await planOf(MYSQL.reclaim, [1_000])).toEqual(['o range outlast_outbox_claimed']);
        const over = await look(MYSQL.reclaim, [1_000]);
        expect(over.rows).toHaveLength(claimed);
        expect(over.read).toBeLessThan(FEW);
        expect((await look(MYSQL.reclaimLock, [ids])).read).toBeLessThan(FEW);
        expect((await look(MYSQL.reclaimMark, [ids])).read).toBeLessThan(FEW);
      }));

    it('are counted from an index', async () => {
      const extra = async (
        statement: MysqlStatement,
        params: readonly unknown[],
      ): Promise<string> => {
        const rows = await run(bind<unknown>(statement, params), 'explain ');
        return rows
          .filter(row => row['table'] === 'outlast_outbox')
          .map(row => `${String(row['key'])} ${String(row['Extra'])}`)
          .join();
      };
      expect(await extra(MYSQL.outboxSample, [FORMAT])).toMatch(
        /^outlast_outbox_due .*Using index/,
      );
      expect(await extra(MYSQL.outboxQueues, [])).toMatch(/^outlast_outbox_due .*Using index/);
      expect((await look(MYSQL.outboxFailing, [5])).read).toBeLessThan(FEW);
      expect((await look(MYSQL.outboxQueuesSampled, [1_000, ROWS])).read).toBeLessThan(10 * FEW);
    });
  };

  describe('of which few are due', () => steps(false));

  describe('all of which are due', () => {
    beforeAll(async () => {
      // For this session it is two hours later.
      await connection.query('set timestamp = unix_timestamp() + 7200');
    });
    steps(true);
  });
});
