import { spawnSync } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { Client } from 'pg';
import { OPTION_TABLE } from '../../src/config/option-table.ts';
import { MIGRATIONS } from '../../src/adapters/postgres/migrations.generated.ts';
import { CliProject, json, type Ended, type JsonError } from '../support/cli-project.ts';
import { until } from '../support/database.ts';
import { sendRows } from '../support/outbox-rows.ts';
import { postgresUrl, withDatabase, type TestDatabase } from '../support/servers.ts';

const ALL = MIGRATIONS.map(({ name }) => name);
const NOTHING_TO_DO = `nothing to do: schema version ${ALL.length}\n`;

let project: CliProject;
const databases: TestDatabase[] = [];

beforeAll(() => {
  project = new CliProject();
});

afterAll(async () => {
  await project.dispose();
  await Promise.all(databases.map(database => database.drop()));
});

/** A separate database, and the environment that names it. */
async function setup(): Promise<{ url: string; env: { OUTLAST_DATABASE_URL: string } }> {
  const database = await withDatabase('cli');
  databases.push(database);
  return { url: database.url, env: { OUTLAST_DATABASE_URL: database.url } };
}

async function execute(url: string, statements: readonly string[]): Promise<void> {
  const client = new Client({ connectionString: url });
  await client.connect();
  try {
    for (const statement of statements) await client.query(statement);
  } finally {
    await client.end();
  }
}

const VERBS: readonly (readonly string[])[] = [
  ['migrate'],
  ['uninstall'],
  ['dev'],
  ['relay'],
  ['worker'],
  ['resurrector'],
  ['send'],
  ['result'],
  ['stats'],
  ['dead-letters'],
  ['dead-letters', 'list'],
  ['dead-letters', 'show'],
  ['dead-letters', 'retry'],
  ['dead-letters', 'purge'],
  ['outbox'],
  ['outbox', 'list'],
  ['doctor'],
  ['config'],
  ['config', 'show'],
];
const COMMON = ['--config <file>', '--loader <kind>', '--env-file <file>', '--json', '--verbose'];
/** Help is wrapped to the width of the terminal. */
const unwrapped = (text: string): string => text.replaceAll(/\s+/g, ' ');

describe('help', () => {
  let helps: ReadonlyMap<string, Ended>;

  beforeAll(async () => {
    const all = VERBS.map(async verb => [verb.join(' '), await project.run(...verb, '--help')]);
    helps = new Map((await Promise.all(all)) as [string, Ended][]);
  });

  it('of the program names every verb and the exit codes', async () => {
    const { code, stdout, stderr } = await project.run('--help');
    expect({ code, stderr }).toEqual({ code: 0, stderr: '' });
    for (const [verb = ''] of VERBS) expect(stdout).toMatch(new RegExp(`^  ${verb} `, 'm'));
    expect(stdout).toContain('3 not found  4 conflict  5 unreachable');
  });

  it('of every verb lists its own flags and the common ones', () => {
    for (const [verb, { code, stdout, stderr }] of helps) {
      expect({ code, stderr }).toEqual({ code: 0, stderr: '' });
      expect(stdout).toContain(`Usage: outlast ${verb} [options]`);
      if (stdout.includes('[command]')) continue;
      for (const flag of COMMON) expect(stdout).toContain(flag);
    }
  });

  it.each(['relay', 'worker', 'resurrector'] as const)(
    'of %s shows each of its options with the default and the variable',
    section => {
      const text = unwrapped(helps.get(section)?.stdout ?? '');
      for (const { flag, sentence, default: value, env } of OPTION_TABLE[section])
        expect(text).toContain(`${flag} <value> ${sentence} (default: ${value}; env: ${env})`);
    },
  );

  it('goes to stderr with exit code 2 when no verb is given', async () => {
    for (const args of [[], ['dead-letters']]) {
      const { code, stdout, stderr } = await project.run(...args);
      expect({ code, stdout }).toEqual({ code: 2, stdout: '' });
      expect(stderr).toContain('Usage: outlast');
    }
  });

  it('is complemented by --version', async () => {
    const { version } = (await import('../../package.json', { with: { type: 'json' } })).default;
    expect(await project.run('--version')).toMatchObject({ code: 0, stdout: `${version}\n` });
  });
});

describe('a wrong command line', () => {
  it.concurrent.each([
    [['relya'], 'Did you mean relay?'],
    [['dead-letters', 'lst'], 'Did you mean list?'],
    [['relay', '--batch-siz', '5'], 'Did you mean --batch-size?'],
    [['relay', '--once', '--drain'], "'--once' cannot be used with option '--drain'"],
    [['send'], "missing required argument 'name'"],
    [['stats', '--loader', 'webpack'], 'Allowed choices are native, jiti'],
    [['stats', '--top', 'many'], '--top is "many"'],
    [['relay', '--batch-size', 'x', '--once'], '--batch-size'],
    [['dead-letters', 'list', '--limit', '0'], 'whole number from 1 to 1000'],
    [['dead-letters', 'purge'], 'nothing says how old a letter must be'],
    [['dead-letters', 'purge', '--task-name', 'shop.*'], '--task-name alone'],
    [['dead-letters', 'purge', '--older-than-dead', 'old'], '--older-than-dead'],
    [['dead-letters', 'purge', '--older-than-dead', '99999d'], 'at most a hundred years'],
    [['dead-letters', 'retry'], 'nothing says which to retry'],
    [['dead-letters', 'retry', 'x', '--all'], '--all and ids of tasks both say which'],
    [['dead-letters', 'retry', 'x', '--limit', '5'], 'choose among --all'],
    [['dead-letters', 'retry', '--all', '--limit', '0'], '--limit is "0"'],
    [['doctor', '--max-transaction-age', 'long'], '--max-transaction-age'],
    [['doctor', '--outbox', 'crm'], 'The configuration names: none'],
    [['result', 'an\nid'], 'the id of a task is not allowed'],
    [['result', 'id', '--wait', 'soon'], '--wait is "soon"'],
    [['stats', '--config', 'nowhere.mjs'], 'nowhere.mjs does not exist'],
  ] as const)('%j exits with 2 and names the mistake', async (args, says) => {
    const { code, stdout, stderr } = await project.runWith(
      { OUTLAST_DATABASE_URL: postgresUrl() },
      ...args,
    );
    expect({ code, stdout }).toEqual({ code: 2, stdout: '' });
    expect(stderr).toContain(says);
    expect(stderr).not.toContain('    at ');
  });

  it('is one JSON object on stderr with --json', async () => {
    const { code, stdout, stderr } = await project.run('relay', '--batch-siz', '5', '--json');
    expect({ code, stdout }).toEqual({ code: 2, stdout: '' });
    expect(json(stderr)).toMatchObject({
      error: {
        code: 'ERR_USAGE',
        message: "unknown option '--batch-siz'",
        hint: 'Did you mean --batch-size?',
      },
    });
  });
});

describe('a database', () => {
  it('of an unknown kind is a usage error that does not show its password', async () => {
    const env = { OUTLAST_DATABASE_URL: 'mongodb://app:hunter2@db.example/shop' };
    for (const more of [[], ['--json']]) {
      const { code, stdout, stderr } = await project.runWith(env, 'stats', ...more);
      expect({ code, stdout }).toEqual({ code: 2, stdout: '' });
      expect(stderr).toContain('mongodb://app:***@db.example/shop');
      expect(stderr).toContain('ERR_OPTION_RANGE');
      expect(stderr).not.toContain('hunter2');
    }
  });

  it('that does not answer exits with 5 without showing its password', async () => {
    const env = { OUTLAST_DATABASE_URL: 'postgres://app:hunter2@127.0.0.1:1/shop' };
    const { code, stdout, stderr } = await project.runWith(env, 'stats', '--json');
    expect({ code, stdout }).toEqual({ code: 5, stdout: '' });
    expect(json<JsonError>(stderr).error).toMatchObject({ code: 'ERR_STORE_UNAVAILABLE' });
    expect(json<JsonError>(stderr).error.hint).toContain('OUTLAST_DATABASE_URL');
    expect(stderr).not.toContain('hunter2');
  });

  it('that does not exist on the server exits with 5 and is named', async () => {
    const url = new URL(postgresUrl());
    url.pathname = '/no_such_database';
    const ended = await project.runWith({ OUTLAST_DATABASE_URL: url.href }, 'stats');
    expect(ended.code).toBe(5);
    expect(ended.stderr).toContain('no_such_database');
  });

  it('that this user may not read exits with 8 and without a stack trace', async () => {
    const { url, env } = await setup();
    await project.runWith(env, 'migrate');
    const role = `cli_guest_${process.pid}`;
    await execute(url, [`create role ${role} login`]);
    try {
      const guest = new URL(url);
      guest.username = role;
      const ended = await project.runWith({ OUTLAST_DATABASE_URL: guest.href }, 'stats');
      expect(ended).toMatchObject({ code: 8, stdout: '' });
      expect(ended.stderr).toContain('permission denied');
      expect(ended.stderr).not.toContain('    at ');
    } finally {
      await execute(url, [`drop role ${role}`]);
    }
  });

  it('is read from --env-file unless the environment has one', async () => {
    const { url } = await setup();
    project.write('production.env', `OUTLAST_DATABASE_URL=${url}\n`);
    const ended = await project.run('migrate', '--env-file', 'production.env', '--json');
    expect(ended).toMatchObject({ code: 0, stderr: '' });
    expect(json(ended.stdout)).toMatchObject({ applied: ALL });
    // Node 20 and 22 look for this flag themselves, behind the program's name too; the first line of the program stops that.
    const bin = fileURLToPath(new URL('../../bin/outlast.js', import.meta.url));
    const missing = spawnSync(bin, ['stats', '--env-file', 'nowhere.env'], { encoding: 'utf8' });
    expect(missing.status).toBe(2);
    expect(missing.stderr).toContain('nowhere.env');
    expect(missing.stderr).toContain('ERR_CONFIG_LOAD');
  });

  it('in a folder is not created by a read-only command', async () => {
    const { code, stderr } = await project.run('stats', '--json');
    expect(code).toBe(1);
    expect(json<JsonError>(stderr).error.code).toBe('ERR_SCHEMA_MISSING');
    expect(existsSync(join(project.folder, '.outlast'))).toBe(false);
  });
});

describe('migrate', () => {
  it('creates the tables, and has nothing to do the second time', async () => {
    const { env } = await setup();
    const before = await project.runWith(env, 'stats', '--json');
    expect(before).toMatchObject({ code: 1, stdout: '' });
    expect(json(before.stderr)).toMatchObject({
      error: { code: 'ERR_SCHEMA_MISSING', hint: 'Run: npx outlast migrate' },
    });
    const first = await project.runWith(env, 'migrate');
    expect(first).toMatchObject({ code: 0, stderr: '' });
    expect(first.stdout).toBe(`applied ${ALL.join(', ')}: schema version ${ALL.length}\n`);
    const second = await project.runWith(env, 'migrate');
    expect(second).toMatchObject({ code: 0, stdout: NOTHING_TO_DO });
    const third = await project.runWith(env, 'migrate', '--json');
    expect(json(third.stdout)).toEqual({ applied: [], version: ALL.length });
    expect((await project.runWith(env, 'stats')).code).toBe(0);
  });

  it('is applied once by several processes that start at the same time', async () => {
    const { env } = await setup();
    const all = await Promise.all([1, 2, 3].map(() => project.runWith(env, 'migrate', '--json')));
    expect(all.map(({ code }) => code)).toEqual([0, 0, 0]);
    const applied = all.flatMap(({ stdout }) => json<{ applied: string[] }>(stdout).applied);
    // Each of them may apply some.
    expect(applied.toSorted()).toEqual(ALL);
  });

  it('says on stderr what it waits for', async () => {
    const { url, env } = await setup();
    const connection = { connectionString: url };
    const [other, observer] = [new Client(connection), new Client(connection)];
    await Promise.all([other.connect(), observer.connect()]);
    try {
      await other.query('begin; select pg_advisory_xact_lock(6885278)');
      const migrating = project.runWith(env, 'migrate', '--json');
      await until(async () => {
        const { rows } = await observer.query(
          `select 1 from pg_stat_activity where query like 'select pg_try_advisory%' and datname = current_database()
             and clock_timestamp() - xact_start > interval '3 seconds'`,
        );
        return rows.length;
      });
      await other.query('commit');
      const { code, stdout, stderr } = await migrating;
      expect({ code, stderr }).toEqual({
        code: 0,
        stderr: 'waits for another process that migrates this database\n',
      });
      expect(json(stdout)).toMatchObject({ applied: ALL });
    } finally {
      await Promise.all([other.end(), observer.end()]);
    }
  });

  it('prints SQL that creates the same database by hand, statement by statement', async () => {
    const { url, env } = await setup();
    const { code, stdout, stderr } = await project.run('migrate', '--print');
    expect({ code, stderr }).toEqual({ code: 0, stderr: '' });
    await execute(url, splitStatements(stdout));
    expect((await project.runWith(env, 'stats')).code).toBe(0);
    const after = await project.runWith(env, 'migrate');
    expect(after).toMatchObject({ code: 0, stdout: NOTHING_TO_DO });
    expect((await project.runWith(env, 'send', 'shop.order')).code).toBe(0);
    await sendRows(url, ['moved']);
    expect((await project.runWith(env, 'relay', '--drain')).stdout).toBe('moved 1\n');
  });

  it('of a newer breaking version makes every verb refuse the database', async () => {
    const { url, env } = await setup();
    await project.runWith(env, 'migrate');
    const newer = (breaking: boolean): string =>
      `insert into outlast_migration (version, name, breaking) values (99, '0099-newer', ${breaking})
       on conflict (version) do update set breaking = excluded.breaking`;
    await execute(url, [newer(false)]);
    expect((await project.runWith(env, 'stats')).code).toBe(0);
    expect((await project.runWith(env, 'migrate')).stdout).toBe(
      'nothing to do: schema version 99\n',
    );
    await execute(url, [newer(true)]);
    const verbs = [['stats'], ['send', 'shop.order'], ['relay', '--once'], ['migrate']];
    for (const verb of verbs) {
      const ended = await project.runWith(env, ...verb, '--json');
      expect(ended).toMatchObject({ code: 1, stdout: '' });
      expect(json<JsonError>(ended.stderr).error.code).toBe('ERR_SCHEMA_NEWER');
      expect(json<JsonError>(ended.stderr).error.message).toContain('99');
    }
  });

  it('creates an embedded database that the next command finds', async () => {
    const embedded = new CliProject();
    try {
      expect(await embedded.run('migrate')).toMatchObject({ code: 0, stderr: '' });
      const sent = await embedded.run('send', 'shop.order', '--id', 'o1');
      expect(sent).toMatchObject({ code: 0, stdout: 'o1\n', stderr: '' });
    } finally {
      await embedded.dispose();
    }
  });
});

/** As psql does it: a semicolon ends a statement, except between dollar quotes. */
function splitStatements(sql: string): readonly string[] {
  const pieces = sql.split('$$');
  const statements = [''];
  for (const [index, piece] of pieces.entries()) {
    const isQuoted = index % 2 === 1;
    const [first = '', ...rest] = isQuoted ? [`$$${piece}$$`] : piece.split(/;\s*$/m);
    statements[statements.length - 1] += first;
    statements.push(...rest);
  }
  return statements.map(statement => statement.trim()).filter(statement => statement !== '');
}
