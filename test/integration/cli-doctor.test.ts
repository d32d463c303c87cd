import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import { Client } from 'pg';
import type { DoctorReport } from '../../src/admin/doctor.ts';
import { CHECK_LIMITS, CHECKS } from '../../src/telemetry/checkup.ts';
import { migrate } from '../../src/adapters/postgres/migrate.ts';
import { PgDatabase } from '../../src/adapters/postgres/pg-database.ts';
import { PostgresCheckup } from '../../src/adapters/postgres/postgres-checkup.ts';
import { CliProject, json } from '../support/cli-project.ts';
import { migratedDatabase, until, type MigratedDatabase } from '../support/database.ts';
import { plantRelayLetter } from '../support/letters.ts';
import { withDatabase } from '../support/servers.ts';
import { openEmbeddedDatabase } from '../support/embedded.ts';

let database: MigratedDatabase;
let project: CliProject;

beforeAll(async () => {
  database = await migratedDatabase('doctor');
  project = new CliProject({}, { OUTLAST_DATABASE_URL: database.url });
});

afterAll(async () => {
  await project.dispose();
  await database.dispose();
});

afterEach(async () => {
  await database.pool.query(
    'truncate outlast_task, outlast_outbox, outlast_dead_letter, outlast_worker, outlast_after, outlast_chord_part, outlast_chord',
  );
});

interface Seen {
  readonly code: number | null;
  readonly status: string;
  /** By name, of the database. */
  readonly checks: Readonly<Record<string, DoctorReport['checks'][number]>>;
}

async function examine(...args: readonly string[]): Promise<Seen> {
  const { code, stdout } = await project.run('doctor', '--json', ...args);
  const report = json<DoctorReport>(stdout);
  const checks = report.checks.filter(({ target }) => target === 'database');
  return {
    code,
    status: report.status,
    checks: Object.fromEntries(checks.map(check => [check.name, check])),
  };
}

const notOk = ({ checks }: Seen): string[] =>
  Object.values(checks)
    .filter(({ status }) => status !== 'ok')
    .map(({ name, status }) => `${name} ${status}`);

async function insertRow(columns: Readonly<Record<string, string>>): Promise<void> {
  const all = {
    task_id: `gen_random_uuid()::text`,
    task_name: `'a'`,
    queue: `'q'`,
    priority: '0',
    args: `'[]'`,
    kwargs: `'{}'`,
    embed: `'null'`,
    options: `'{}'`,
    digest: `'x'`,
    schema_version: '1',
    payload_version: '1',
    available_at: 'now()',
    ...columns,
  };
  await database.pool.query(
    `insert into outlast_outbox (${Object.keys(all).join(', ')}) values (${Object.values(all).join(', ')})`,
  );
}

describe('doctor', () => {
  it('finds nothing where everything is healthy', async () => {
    const seen = await examine();
    expect(seen).toMatchObject({ code: 0, status: 'ok' });
    expect(notOk(seen)).toEqual([]);
    expect(Object.keys(seen.checks)).toEqual([
      'server',
      'clock',
      'settings',
      'schema',
      'autovacuum',
      'bloat',
      'snapshots',
      'backlog',
      'format',
      'claims',
      'ordering',
      'recovery',
      'queues',
      'handlers',
      'chords',
      'objectives',
      'relays',
      'tiers',
      'schedules',
    ]);
    const text = await project.run('doctor');
    expect(text.stdout).toMatch(/^ok {7}database server: PostgreSQL \d+/m);
    expect(text.stdout).toMatch(/all is well\n$/);
  });

  it('names the session that holds a snapshot and blocks vacuum', async () => {
    const holder = new Client({ connectionString: database.url, application_name: 'reporting' });
    await holder.connect();
    try {
      await holder.query('begin isolation level repeatable read');
      const { rows } = await holder.query<{ pid: number }>('select pg_backend_pid() as pid');
      const seen = await examine('--max-transaction-age', '0');
      expect(seen).toMatchObject({ code: 6, status: 'unhealthy' });
      expect(notOk(seen)).toEqual(['snapshots problem']);
      const pid = rows[0]?.pid;
      expect(seen.checks['snapshots']?.message).toContain(`pid ${pid} (reporting)`);
      expect(seen.checks['snapshots']?.details).toMatchObject({
        holders: [{ id: String(pid), application: 'reporting', state: 'idle in transaction' }],
      });
      // Held for seconds only: no problem under the default of five minutes.
      expect((await examine()).code).toBe(0);
    } finally {
      await holder.query('rollback');
      await holder.end();
    }
    expect((await examine('--max-transaction-age', '0')).checks['snapshots']?.status).toBe('ok');
  });

  it('detects that autovacuum is off for a table, and shows how to turn it on', async () => {
    await database.pool.query('alter table outlast_task set (autovacuum_enabled = off)');
    const seen = await examine();
    expect(seen.code).toBe(6);
    expect(notOk(seen)).toEqual(['autovacuum problem']);
    const advice = seen.checks['autovacuum']?.advice ?? '';
    expect(advice).toBe('alter table outlast_task reset (autovacuum_enabled);');
    await database.pool.query(advice);
    expect((await examine()).code).toBe(0);
  });

  it('advises a vacuum threshold where ours was removed, and still exits with 0', async () => {
    await database.pool.query('alter table outlast_outbox reset (autovacuum_vacuum_threshold)');
    const seen = await examine();
    expect(seen).toMatchObject({ code: 0, status: 'ok' });
    expect(notOk(seen)).toEqual(['autovacuum advice']);
    await database.pool.query(seen.checks['autovacuum']?.advice ?? '');
    expect(notOk(await examine())).toEqual([]);
  });

  it('reports dead rows together with live ones', async () => {
    const { pool } = database;
    await pool.query('alter table outlast_outbox set (autovacuum_enabled = off)');
    for (let row = 0; row < 30; row++) await insertRow({});
    await pool.query('delete from outlast_outbox');
    await until(async () => {
      // The server publishes its own statistics with a delay.
      await pool.query('select pg_stat_force_next_flush()').catch(() => undefined);
      const { rows } = await pool.query<{ dead: string }>(
        `select n_dead_tup as dead from pg_stat_user_tables where relname = 'outlast_outbox'`,
      );
      return Number(rows[0]?.dead) >= 30;
    });
    const seen = await examine('--max-dead-tuples', '20');
    expect(notOk(seen)).toEqual(['autovacuum problem', 'bloat problem']);
    expect(seen.checks['bloat']?.message).toMatch(/outlast_outbox has \d+ dead rows beside \d+/);
    expect((await examine()).checks['bloat']?.status).toBe('ok');
    await pool.query('alter table outlast_outbox reset (autovacuum_enabled)');
  });

  it('counts rows that need a newer relay, as stats and the list do', async () => {
    await insertRow({ schema_version: '99', task_id: `'future'` });
    const seen = await examine();
    expect(seen.code).toBe(6);
    expect(notOk(seen)).toEqual(['format problem']);
    expect(seen.checks['format']?.details).toMatchObject({ unsupported: 1 });
    const stats = await project.run('stats', '--json');
    expect(json(stats.stdout)).toMatchObject({ outbox: { pending: 1, unsupported: 1 } });
    expect((await project.run('stats')).stdout).toContain('1 in a format of a newer version');
    const list = await project.run('outbox', 'list');
    expect(list.stdout).toMatch(/^future .* unsupported /m);
  });

  it('detects rows that have been due for too long', async () => {
    await insertRow({ available_at: `now() - interval '10 min'` });
    const seen = await examine();
    expect(seen.code).toBe(6);
    expect(notOk(seen)).toEqual(['backlog problem', 'relays problem']);
    expect(seen.checks['backlog']?.message).toContain('due for 10 min');
    expect(notOk(await examine('--max-pending-age', '1h'))).toEqual(['relays problem']);
  });

  it.each([
    ['move rows', () => insertRow({ available_at: `now()` })],
    ['run tasks', () => project.run('send', 'py.any')],
  ])(
    'says at once that no worker is alive which would %s, and that all is well with one',
    async (_, put) => {
      await put();
      const alone = await examine();
      expect(alone.code).toBe(6);
      expect(alone.checks['relays']).toMatchObject({
        status: 'problem',
        meaning: CHECKS.relays,
        advice: expect.stringContaining('outlast worker') as string,
      });
      await database.pool.query(
        `insert into outlast_worker (id, process, host, pid, lease_ms, deadline, queues)
       values ('w', 'p', 'h', 1, 60000, now() + interval '1 min', '{default}')`,
      );
      expect(notOk(await examine())).toEqual([]);
    },
  );

  it('counts advice as a problem where it is strict', async () => {
    project.write('odd.config.mjs', `export default { resurrector: { interval: '1m' } };`);
    expect((await project.run('doctor', '--config', 'odd.config.mjs')).code).toBe(0);
    expect((await project.run('doctor', '--config', 'odd.config.mjs', '--strict')).code).toBe(6);
  });

  it('detects claims of dead relays', async () => {
    const claimed = { state: `'claimed'`, claim_token: `'t'`, claimed_by: `'relay:gone'` };
    await insertRow({ ...claimed, claimed_until: `now() + interval '1 h'`, updated_at: 'now()' });
    const none = 'relays problem';
    expect(notOk(await examine())).toEqual([none]);
    expect(notOk(await examine('--max-orphan-age', '0'))).toEqual(['claims problem', none]);
    await database.pool.query(`update outlast_outbox set claimed_until = now() - interval '2 min'`);
    expect(notOk(await examine())).toEqual(['claims problem', none]);
  });

  it('detects tasks of dead workers, and follow-ups that were not sent', async () => {
    await database.pool.query(
      `insert into outlast_worker (id, process, host, pid, lease_ms, deadline)
       values ('w1', 'p1', 'h', 1, 5000, now() - interval '5 min')`,
    );
    await database.pool.query(
      `insert into outlast_task (id, name, queue, priority, payload_version, body, options, digest, state, epoch, run, owner)
       values ('t1', 'a', 'q', 0, 1, '', '{}', 'x', 'running', 1, 'r', 'w1')`,
    );
    await database.pool.query(
      `insert into outlast_after (key, entry, created_at) values ('k', '', now() - interval '5 min')`,
    );
    const seen = await examine();
    expect(notOk(seen)).toEqual(['recovery problem']);
    expect(seen.checks['recovery']?.details).toEqual({
      orphans: 1,
      follow_ups: 1,
      workers: 0,
    });
    // Fresh enough for a worker that is alive, and too old where nothing is.
    await database.pool.query(`update outlast_worker set deadline = now() - interval '30 s'`);
    await database.pool.query(`update outlast_after set created_at = now() - interval '30 s'`);
    expect((await examine()).checks['recovery']).toMatchObject({
      status: 'problem',
      message: expect.stringContaining('no worker is alive, and no resurrector') as string,
    });
    await database.pool.query(
      `insert into outlast_worker (id, process, host, pid, lease_ms, deadline)
       values ('w2', 'p2', 'h', 2, 5000, now() + interval '5 min')`,
    );
    expect((await examine()).checks['recovery']?.status).toBe('ok');
    // A resurrector that looks once a minute is not missing yet.
    await database.pool.query(`delete from outlast_worker where id = 'w2'`);
    project.write('slow.config.mjs', `export default { resurrector: { interval: '1m' } };`);
    const slow = await examine('--config', 'slow.config.mjs');
    expect(slow.checks['recovery']?.status).toBe('ok');
  });

  it('names chords that have been open for too long; those with a failed part have a dead letter already', async () => {
    await database.pool.query(
      `insert into outlast_chord_part (group_id, place, size, task_id, result, joined_at) values
         ('failed', 0, 2, 't', null, now() - interval '2 days'), ('young', 0, 2, 't', '1', now())`,
    );
    const seen = await examine();
    expect(notOk(seen)).toEqual(['chords advice']);
    expect(seen.checks['chords']?.details).toMatchObject({ open: 2, late: 1, silent: 0 });
    await database.pool.query(
      `insert into outlast_chord_part (group_id, place, size, task_id, result, joined_at) values
         ('silent', 0, 2, 't', '1', now() - interval '1 hour')`,
    );
    const shorter = await examine('--max-chord-age', '600s');
    expect(notOk(shorter)).toEqual(['chords problem']);
    expect(shorter.code).toBe(6);
    expect(shorter.checks['chords']?.message).toContain('silent (1 of 2)');
  });

  it('reports ordering keys that are parked behind a dead letter', async () => {
    await plantRelayLetter(database.pool, 'parker', { orderingKey: 'customer-1' });
    const seen = await examine();
    expect(seen.code).toBe(0);
    expect(notOk(seen)).toEqual(['ordering advice']);
  });

  it('reports that a user may not see the transactions of others', async () => {
    const role = `doctor_${process.pid}`;
    const { pool } = database;
    await pool.query(`create role ${role} login`);
    try {
      await pool.query(`grant select on all tables in schema public to ${role}`);
      const url = new URL(database.url);
      url.username = role;
      const { stdout } = await project.runWith(
        { OUTLAST_DATABASE_URL: url.href },
        'doctor',
        '--json',
      );
      const { checks } = json<DoctorReport>(stdout);
      expect(checks.find(({ name }) => name === 'snapshots')).toMatchObject({
        status: 'advice',
        advice: 'Grant it the role pg_read_all_stats.',
      });
    } finally {
      await pool.query(`drop owned by ${role}`);
      await pool.query(`drop role ${role}`);
    }
  });

  it('measures the clock of this process against the server, without the network delay', async () => {
    const db = await PgDatabase.open({ url: database.url, poolSize: 1, queryTimeoutMs: 30_000 });
    const clockBy = async (skewMs: number) => {
      const nowMs = (): number => Date.now() + skewMs;
      const checks = await new PostgresCheckup(db, { isEmbedded: false, nowMs }).run(CHECK_LIMITS);
      return checks.find(({ name }) => name === 'clock');
    };
    try {
      expect(await clockBy(0)).toMatchObject({ status: 'ok' });
      const ahead = await clockBy(10_000);
      expect(ahead?.status).toBe('problem');
      expect(ahead?.message).toMatch(/is (10|9)\.\d s ahead of that of the database/);
      expect((await clockBy(-3_600_000))?.message).toContain('60 min behind');
    } finally {
      await db.close();
    }
  });

  it('exits with 6 where the tables are missing, older or of an incompatible version', async () => {
    const empty = await withDatabase('doctor_empty');
    const env = { OUTLAST_DATABASE_URL: empty.url };
    try {
      const missing = await project.runWith(env, 'doctor', '--json');
      expect(missing.code).toBe(6);
      expect(missing.stdout).toContain('Run: npx outlast migrate');
      await project.runWith(env, 'migrate');
      const client = new Client({ connectionString: empty.url });
      await client.connect();
      await client.query(
        `insert into outlast_migration (version, name, breaking) values (99, '0099-x', true)`,
      );
      const newer = await project.runWith(env, 'doctor', '--json');
      expect(newer.code).toBe(6);
      expect(newer.stdout).toContain('ERR_SCHEMA_NEWER');
      await client.query('delete from outlast_migration where version > 1');
      await client.query(`update outlast_migration set name = '0001-outbox'`);
      const older = await project.runWith(env, 'doctor');
      expect(older.code).toBe(6);
      expect(older.stdout).toContain('before the first release');
      await client.end();
    } finally {
      await empty.drop();
    }
  });

  it('exits with 5 where a database does not answer, and still checks the others', async () => {
    project.write(
      'two.config.mjs',
      `export default { outboxes: { crm: { database: 'postgres://u:hunter2@127.0.0.1:1/x' } } };`,
    );
    const ended = await project.run('doctor', '--config', 'two.config.mjs', '--json');
    expect(ended.code).toBe(5);
    expect(ended.stdout).not.toContain('hunter2');
    const { status, checks } = json<DoctorReport>(ended.stdout);
    expect(status).toBe('unreachable');
    expect(checks.filter(({ target }) => target === 'database').length).toBeGreaterThan(5);
    expect(checks.find(({ target }) => target === 'outboxes.crm')).toMatchObject({
      name: 'connection',
      status: 'problem',
    });
    const alone = await project.run('doctor', '--config', 'two.config.mjs', '--outbox', 'crm');
    expect(alone.code).toBe(5);
    expect(alone.stdout).not.toContain('database server');
  });

  it('repeats the warnings about the configuration', async () => {
    project.write('odd.config.mjs', `export default { resurrector: { interval: '1m' } };`);
    const ended = await project.run('doctor', '--config', 'odd.config.mjs');
    expect(ended.code).toBe(0);
    expect(ended.stdout).toMatch(/^advice {3}config config: .*interval/m);
  });
});

describe('an embedded database', () => {
  it('that does not exist is a problem, and is not created by the check', async () => {
    const embedded = new CliProject();
    try {
      const ended = await embedded.run('doctor', '--json');
      expect(ended.code).toBe(6);
      expect(ended.stdout).toContain('ERR_SCHEMA_MISSING');
      expect(existsSync(join(embedded.folder, '.outlast'))).toBe(false);
    } finally {
      await embedded.dispose();
    }
  });

  it('is checked without the checks that need a server', async () => {
    const db = await openEmbeddedDatabase();
    try {
      await migrate(db);
      const checkup = new PostgresCheckup(db, { isEmbedded: true, nowMs: Date.now });
      const checks = await checkup.run(CHECK_LIMITS);
      expect(checks.map(({ name, status }) => `${name} ${status}`)).toEqual([
        'server ok',
        'settings ok',
        'schema ok',
        'backlog ok',
        'format ok',
        'claims ok',
        'ordering ok',
        'recovery ok',
        'queues ok',
        'handlers ok',
        'chords ok',
        'objectives ok',
      ]);
    } finally {
      await db.close();
    }
  });
});
