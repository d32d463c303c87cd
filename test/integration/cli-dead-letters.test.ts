import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { SQL } from '../../src/adapters/postgres/sql.generated.ts';
import { CliProject, json, type JsonError } from '../support/cli-project.ts';
import { migratedDatabase, until, type MigratedDatabase } from '../support/database.ts';
import { plantDeadTask, plantRelayLetter } from '../support/letters.ts';

let main: MigratedDatabase;
let crm: MigratedDatabase;
let project: CliProject;

beforeAll(async () => {
  [main, crm] = [await migratedDatabase('letters'), await migratedDatabase('letters_crm')];
  project = new CliProject(
    {
      'outlast.config.mjs': `export default { outboxes: { crm: { database: '${crm.url}' } } };`,
      'kept.config.mjs': `export default {
        outboxes: { crm: { database: '${crm.url}' } },
        retention: { deadLetters: { olderThanDead: '30d', taskName: 'shop.*' } },
      };`,
    },
    { OUTLAST_DATABASE_URL: main.url },
  );
});

afterAll(async () => {
  await project.dispose();
  await main.dispose();
  await crm.dispose();
});

beforeEach(async () => {
  for (const { pool } of [main, crm]) {
    await pool.query('truncate outlast_task, outlast_step, outlast_dead_letter, outlast_outbox');
  }
});

const letters = (...args: readonly string[]) => project.run('dead-letters', ...args);

async function listed(...args: readonly string[]): Promise<string[]> {
  const { stdout } = await letters('list', ...args, '--json');
  return json<{ items: { id: string; where: string }[] }>(stdout).items.map(
    ({ id, where }) => `${id} ${where}`,
  );
}

describe('purge', () => {
  it('deletes old dead letters of both kinds, and counts them by task', async () => {
    await plantDeadTask(main.pool, 'old-task', { deadAt: "now() - interval '8 days'" });
    await plantDeadTask(main.pool, 'new-task');
    await plantRelayLetter(main.pool, 'old-row', { deadAt: "now() - interval '9 days'" });
    await plantRelayLetter(main.pool, 'new-row');
    await main.pool.query(
      `insert into outlast_step (task_id, step, epoch) values ('old-task', 'main', 1)`,
    );
    const dry = await letters('purge', '--older-than-dead', '7d', '--dry-run', '--json');
    const counts = [
      { name: 'shop.planted', count: 1 },
      { name: 'shop.relayed', count: 1 },
    ];
    expect(json(dry.stdout)).toEqual({ count: 2, tasks: counts, dry_run: true });
    expect(await listed()).toHaveLength(4);
    const purged = await letters('purge', '--older-than-dead', '7d', '--json');
    expect(purged).toMatchObject({ code: 0, stderr: '' });
    expect(json(purged.stdout)).toEqual({ count: 2, tasks: counts, dry_run: false });
    expect((await listed()).toSorted()).toEqual(['new-row relay', 'new-task worker']);
    expect((await main.pool.query('select 1 from outlast_step')).rowCount).toBe(0);
    const { tasks } = json<{ tasks: object }>((await project.run('stats', '--json')).stdout);
    expect(tasks).toMatchObject({ dead: 1, purged: 1 });
    const text = await letters('purge', '--older-than-dead', '7d');
    expect(text).toMatchObject({ code: 0, stdout: '0 purged\n' });
  });

  it('accepts a bare number as seconds, the age since the send, and a glob', async () => {
    await plantDeadTask(main.pool, 'a', { name: 'shop.a', createdAt: "now() - interval '2 min'" });
    await plantDeadTask(main.pool, 'b', { name: 'shop.b', createdAt: "now() - interval '2 min'" });
    await plantDeadTask(main.pool, 'c', { name: 'shop.a', createdAt: "now() - interval '20 s'" });
    const purged = await letters('purge', '--older-than-created', '60', '--task-name', '*.a');
    expect(purged.stdout).toBe('1 purged\nNAME    COUNT\nshop.a  1\n');
    expect((await listed()).toSorted()).toEqual(['b worker', 'c worker']);
  });

  it('deletes thousands in chunks', async () => {
    await main.pool.query(
      `insert into outlast_task (id, name, queue, priority, payload_version, body, options, digest, state, ending,
         reason, version, ended_at)
       select 'bulk-' || i, 'bulk.' || i % 2, 'q', 0, 1, '', '{}', 'x', 'dead', 'dead', 'r', 1, now() - interval '1 day'
       from generate_series(1, 2500) i`,
    );
    const { stdout } = await letters('purge', '--older-than-dead', '1h', '--json');
    expect(json(stdout)).toMatchObject({ count: 2_500 });
    expect(await listed()).toEqual([]);
  });

  it('follows `retention` of the configuration when no flag is given', async () => {
    const old = { deadAt: "now() - interval '31 days'" };
    await plantDeadTask(main.pool, 'mine', { ...old, name: 'shop.x' });
    await plantDeadTask(main.pool, 'other', { ...old, name: 'bank.x' });
    const kept = await letters('purge', '--config', 'kept.config.mjs', '--json');
    expect(json(kept.stdout)).toMatchObject({ count: 1, tasks: [{ name: 'shop.x', count: 1 }] });
    const without = await letters('purge', '--json');
    expect(without).toMatchObject({ code: 2, stdout: '' });
    expect(json<JsonError>(without.stderr).error.code).toBe('ERR_OPTIONS_CONFLICT');
  });

  it('is done by a resurrector, also in other outboxes', async () => {
    const old = { deadAt: "now() - interval '31 days'" };
    await plantDeadTask(main.pool, 'worker', old);
    await plantRelayLetter(main.pool, 'relay', old);
    await plantRelayLetter(crm.pool, 'crm', old);
    await plantRelayLetter(crm.pool, 'young');
    const resurrector = project.start(['resurrector', '--config', 'kept.config.mjs']);
    await until(async () => {
      const left = await Promise.all([
        main.pool.query(`select 1 from outlast_task where state = 'dead'`),
        main.pool.query('select 1 from outlast_dead_letter'),
        crm.pool.query(`select 1 from outlast_dead_letter where task_id <> 'young'`),
      ]);
      return left.every(({ rowCount }) => rowCount === 0);
    });
    expect((await resurrector.stop()).code).toBe(0);
    expect(resurrector.stderr).toContain('dead letters purged');
    expect((await crm.pool.query('select 1 from outlast_dead_letter')).rowCount).toBe(1);
  });
});

describe('retry', () => {
  it('revives all letters that match, and skips expired ones', async () => {
    await plantDeadTask(main.pool, 'a', { name: 'shop.a' });
    await plantRelayLetter(main.pool, 'b', { name: 'shop.b' });
    await plantDeadTask(main.pool, 'late', { name: 'shop.c', expiresAt: "now() - interval '1 s'" });
    await plantDeadTask(main.pool, 'bank', { name: 'bank.a' });
    const ended = await letters('retry', '--all', '--task-name', 'shop.*', '--json');
    expect(ended.code).toBe(7);
    expect(json(ended.stdout)).toEqual({
      retried: 2,
      skipped: { expired: 1, conflict: 0, incomplete: 0 },
    });
    expect((await listed()).toSorted()).toEqual(['bank worker', 'late worker']);
    const one = await letters('retry', 'late');
    expect(one).toMatchObject({ code: 4, stdout: 'late is not brought back: its time is over\n' });
    const rest = await letters('retry', '--all');
    expect(rest).toMatchObject({
      code: 7,
      stdout: '1 wait again\n1 skipped: their time is over\n',
    });
    const none = await letters('retry', '--all', '--task-name', 'nobody.*');
    expect(none).toMatchObject({ code: 0, stdout: '0 wait again\n' });
  });

  it('starts with the oldest and stops at the limit', async () => {
    for (const [index, id] of ['c', 'a', 'b'].entries())
      await plantDeadTask(main.pool, id, { deadAt: `now() - interval '${index} min'` });
    await letters('retry', '--all', '--limit', '2');
    expect(await listed()).toEqual(['c worker']);
  });

  it('keeps id, bytes and options, and is recorded in the history', async () => {
    const options = '{"headers":{"traceparent":"00-abc"}}';
    await plantRelayLetter(main.pool, 'kept', { options });
    expect((await letters('retry', 'kept')).stdout).toBe('kept waits again\n');
    const { rows } = await main.pool.query<Record<string, string>>(
      `select task_id, convert_from(args, 'UTF8') as args, convert_from(options, 'UTF8') as options,
         convert_from(error_history, 'UTF8') as history from outlast_outbox`,
    );
    expect(rows[0]).toMatchObject({ task_id: 'kept', args: '["secret"]', options });
    expect(JSON.parse(rows[0]?.['history'] ?? '')).toMatchObject({
      step: 'revived',
      at: expect.stringMatching(/^\d{4}-.*Z$/) as string,
    });
  });
});

describe('an outbox in another database', () => {
  it('lists its letters together with those of the workers, and each is retried in the store where it died', async () => {
    await plantRelayLetter(crm.pool, 'of-crm', { deadAt: "now() - interval '1 min'" });
    await plantDeadTask(main.pool, 'of-worker');
    await plantRelayLetter(main.pool, 'of-main');
    expect(await listed('--outbox', 'crm')).toEqual(['of-worker worker', 'of-crm relay']);
    expect((await letters('retry', 'of-crm', 'of-worker', '--outbox', 'crm')).code).toBe(0);
    const { rows } = await crm.pool.query('select task_id from outlast_outbox');
    expect(rows).toEqual([{ task_id: 'of-crm' }]);
    const stats = await project.run('stats', '--outbox', 'crm', '--json');
    expect(json(stats.stdout)).toMatchObject({
      queue_depth: 1,
      dlq_count: 0,
      tasks: { waiting: 1 },
      queues: [
        { queue: 'planted', pending: 1, waiting: 1, running: 0, is_paused: false, consumers: 0 },
      ],
    });
  });
});

describe('redacted copies', () => {
  const redacted = { args: '["***"]', kwargs: '{}' };

  it('are the only thing shown, of letters of the relay and of the worker', async () => {
    await plantRelayLetter(main.pool, 'relay', { redacted });
    const body = '[["secret"],{},null]';
    await plantDeadTask(main.pool, 'worker', { body, options: JSON.stringify({ redacted }) });
    for (const id of ['relay', 'worker']) {
      const shown = await Promise.all([letters('show', id), letters('show', id, '--json')]);
      for (const { code, stdout } of shown) {
        expect(code).toBe(0);
        expect(stdout).not.toContain('secret');
        expect(stdout).not.toContain(Buffer.from('secret').toString('base64').slice(0, 6));
      }
      expect(shown[0]?.stdout).toContain('payload  [["***"],{},null]  (redacted)');
      expect(json(shown[1]?.stdout ?? '')).toMatchObject({
        is_redacted: true,
        body_text: '[["***"],{},null]',
      });
    }
    expect((await letters('retry', 'worker')).code).toBe(0);
    const { rows } = await main.pool.query(
      `select convert_from(body, 'UTF8') as body from outlast_task where id = 'worker'`,
    );
    expect(rows).toEqual([{ body }]);
  });
});

describe('a purge and a retry of the same letter', () => {
  const plant = () => plantRelayLetter(main.pool, 'race', { deadAt: "now() - interval '1 h'" });
  const rows = async (table: string): Promise<number | null> =>
    (await main.pool.query(`select 1 from ${table}`)).rowCount;

  it('end as a purge when the purge came first', async () => {
    await plant();
    const [purging, reviving] = [await main.pool.connect(), await main.pool.connect()];
    try {
      await purging.query('begin');
      expect((await purging.query(SQL.purgeDeadLetters, [1, null, null, 1_000])).rowCount).toBe(1);
      const { rows: me } = await reviving.query<{ pid: number }>('select pg_backend_pid() as pid');
      const revival = reviving.query<{ status: string }>(SQL.reviveDeadLetter, ['race', 1]);
      await until(async () => {
        const waiting = await main.pool.query(
          `select 1 from pg_stat_activity where pid = $1 and wait_event_type = 'Lock'`,
          [me[0]?.pid],
        );
        return waiting.rowCount;
      });
      await purging.query('commit');
      expect((await revival).rows[0]?.status).toBe('conflict');
    } finally {
      purging.release();
      reviving.release();
    }
    expect([await rows('outlast_outbox'), await rows('outlast_dead_letter')]).toEqual([0, 0]);
  });

  it('end as a retry when the retry came first, and the purge does not wait for it', async () => {
    await plant();
    const reviving = await main.pool.connect();
    try {
      await reviving.query('begin');
      await reviving.query(SQL.reviveDeadLetter, ['race', 1]);
      expect((await main.pool.query(SQL.purgeDeadLetters, [1, null, null, 1_000])).rowCount).toBe(
        0,
      );
      await reviving.query('commit');
    } finally {
      reviving.release();
    }
    expect([await rows('outlast_outbox'), await rows('outlast_dead_letter')]).toEqual([1, 0]);
  });
});
