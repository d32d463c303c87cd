import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { digestOf } from '../../src/task/digest.ts';
import { migratedDatabase, migratedMariadb } from '../support/database.ts';
import { ON_MARIADB, ON_POSTGRES } from '../support/libraries.ts';
import { ASPECTS, transactionAdapterSuite, type LookedAt } from './transaction-adapter.ts';

const PAGE = join(import.meta.dirname, '../../docs/reference/transactions.md');
const SERVERS = { PostgreSQL: ON_POSTGRES, MariaDB: ON_MARIADB } as const;
type Server = keyof typeof SERVERS;

const looked: Partial<Record<Server, LookedAt>> = {};
/** `library server aspect` of every test that passed. */
const shown = new Set<string>();

/** How a database may be set up that an application shares with others: some libraries put values into the text. */
const HOSTILE = {
  bytea_output: 'escape',
  datestyle: `'German, DMY'`,
  standard_conforming_strings: 'off',
  timezone: `'Asia/Kathmandu'`,
};

interface StoredTask {
  readonly id: string;
  readonly name: string;
  readonly version: number;
  readonly body: Buffer;
  readonly digest: string;
}

const ROWS = `select task_id as id, task_name as name, payload_version as version, digest, args, kwargs, embed from outlast_outbox`;
const TASKS = `select id, name, payload_version as version, digest, body from outlast_task`;

const damagedAmong = (tasks: readonly StoredTask[]): number =>
  tasks.filter(task => digestOf(task) !== task.digest).length;

type StoredRow = Omit<StoredTask, 'body'> & Readonly<Record<'args' | 'kwargs' | 'embed', Buffer>>;

const taskOf = ({ args, kwargs, embed, ...row }: StoredRow): StoredTask => ({
  ...row,
  body: Buffer.from(`[${args.toString()},${kwargs.toString()},${embed.toString()}]`),
});

beforeAll(async () => {
  const postgres = await migratedDatabase('adapters');
  const name = new URL(postgres.url).pathname.slice(1);
  for (const [setting, value] of Object.entries(HOSTILE))
    await postgres.pool.query(`alter database "${name}" set ${setting} = ${value}`);
  await postgres.pool.query('create table orders (id text primary key)');
  looked.PostgreSQL = {
    url: postgres.url,
    count: async what => {
      const sent = 'outlast_task union all select 1 from outlast_outbox';
      return (
        (await postgres.pool.query(`select 1 from ${what === 'sent' ? sent : what}`)).rowCount ?? 0
      );
    },
    damaged: async () => {
      const { rows: tasks } = await postgres.pool.query<StoredTask>(TASKS);
      const { rows } = await postgres.pool.query<StoredRow>(ROWS);
      return damagedAmong([...tasks, ...rows.map(taskOf)]);
    },
    clear: async () =>
      void (await postgres.pool.query(
        'delete from orders; delete from outlast_task; delete from outlast_outbox',
      )),
    dispose: () => postgres.dispose(),
  };
  const mariadb = await migratedMariadb('adapters');
  await mariadb.pool.query('create table orders (id varchar(64) primary key)');
  looked.MariaDB = {
    url: mariadb.url,
    count: async what => {
      const table = what === 'sent' ? 'outlast_outbox' : what;
      return ((await mariadb.pool.query(`select 1 from ${table}`))[0] as unknown[]).length;
    },
    damaged: async () =>
      damagedAmong(((await mariadb.pool.query(ROWS))[0] as StoredRow[]).map(taskOf)),
    clear: async () => {
      await mariadb.pool.query('delete from orders');
      await mariadb.pool.query('delete from outlast_outbox');
    },
    dispose: () => mariadb.dispose(),
  };
});

afterAll(async () => {
  for (const database of Object.values(looked)) await database.dispose();
});

describe.each(Object.keys(SERVERS) as Server[])('on %s', server => {
  describe.each(Object.entries(SERVERS[server]))('%s', (name, open) => {
    transactionAdapterSuite(
      server,
      async () => looked[server] as LookedAt,
      open,
      aspect => shown.add(`${name} ${server} ${aspect}`),
    );
  });
});

/** The table of the page, from what the tests above have shown. */
function shownTable(): string {
  const names = [...new Set([...Object.keys(ON_POSTGRES), ...Object.keys(ON_MARIADB)])];
  const head = ['library', ...ASPECTS];
  const cell = (name: string, aspect: string): string =>
    (Object.keys(SERVERS) as Server[])
      .filter(server => shown.has(`${name} ${server} ${aspect}`))
      .join(', ') || '–';
  const rows = names.map(name => [name, ...ASPECTS.map(aspect => cell(name, aspect))]);
  const lines = [head, head.map(() => '---'), ...rows].map(cells => `| ${cells.join(' | ')} |`);
  return lines.join('\n');
}

it('the table in docs/reference/transactions.md is what these tests have shown', () => {
  expect(readFileSync(PAGE, 'utf8')).toContain(shownTable());
});
