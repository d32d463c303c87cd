import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { createConnection } from 'mysql2/promise';
import { MIGRATIONS } from '../../src/adapters/mysql/migrations.generated.ts';
import { CliProject, json, type JsonError } from '../support/cli-project.ts';
import { migratedDatabase, type MigratedDatabase } from '../support/database.ts';
import { withMariadb, type TestDatabase } from '../support/servers.ts';

const VERSION = MIGRATIONS.at(-1)?.version;

let main: MigratedDatabase;
let crm: TestDatabase;
let project: CliProject;

beforeAll(async () => {
  main = await migratedDatabase('cli_main');
  crm = await withMariadb('cli_crm');
  // No handlers of a user are needed: the verbs work by name.
  project = new CliProject(
    { 'outlast.config.json': JSON.stringify({ outboxes: { crm: { database: crm.url } } }) },
    { OUTLAST_DATABASE_URL: main.url },
  );
});

afterAll(async () => {
  await project.dispose();
  await main.dispose();
  await crm.drop();
});

const onCrm = async (...args: readonly string[]): Promise<string> => {
  const ended = await project.run(...args, '--outbox', 'crm');
  expect({ args, ...ended }).toMatchObject({ code: 0 });
  return ended.stdout;
};

async function query(url: string, text: string): Promise<Record<string, unknown>[]> {
  const connection = await createConnection({ uri: url, multipleStatements: true });
  try {
    return (await connection.query(text))[0] as unknown as Record<string, unknown>[];
  } finally {
    await connection.end();
  }
}

describe('the verbs, for an outbox in MariaDB', () => {
  it('report that its tables are missing, and exit with 1', async () => {
    const ended = await project.run('stats', '--outbox', 'crm', '--json');
    expect(ended.code).toBe(1);
    expect(json<JsonError>(ended.stderr).error.code).toBe('ERR_SCHEMA_MISSING');
  });

  it('migrate it, once', async () => {
    const names = MIGRATIONS.map(({ name }) => name).join(', ');
    expect(await onCrm('migrate')).toBe(`applied ${names}: schema version ${VERSION}\n`);
    expect(await onCrm('migrate')).toBe(`nothing to do: schema version ${VERSION}\n`);
  });

  it('send into it, count it, relay it and find the result in the ledger', async () => {
    const id = (await onCrm('send', 'mysql.cli', '--kwargs', '{"orderId":"17"}')).trim();
    const before = json<{ queue_depth: number; queues: unknown[] }>(await onCrm('stats', '--json'));
    expect(before).toMatchObject({ queue_depth: 1 });
    expect(before.queues).toEqual([expect.objectContaining({ queue: 'default', pending: 1 })]);
    expect(await onCrm('relay', '--drain')).toBe('moved 1\n');
    expect(json(await onCrm('stats', '--json'))).toMatchObject({ queue_depth: 0 });
    const { stdout, code } = await project.run('result', id);
    expect([stdout, code]).toEqual(['waiting\n', 7]);
  });

  it('list, show and retry its dead letters', async () => {
    const id = (await onCrm('send', 'mysql.dead', '--args', '["secret"]')).trim();
    await query(
      crm.url,
      `insert into outlast_dead_letter (task_id, version, task_name, queue, priority, args, kwargs, embed, options, digest,
         schema_version, payload_version, retries, failure_reason, error_history, created_at, dead_at, row_id)
       select task_id, 1, task_name, queue, priority, args, kwargs, embed, options, digest, schema_version, payload_version,
         5, 'no such exchange', '', created_at, utc_timestamp(6), id from outlast_outbox;
       delete from outlast_outbox`,
    );
    const list = json<{ items: unknown[] }>(await onCrm('dead-letters', 'list', '--json'));
    expect(list.items).toEqual([
      expect.objectContaining({
        id,
        name: 'mysql.dead',
        where: 'relay',
        error: 'no such exchange',
      }),
    ]);
    expect(await onCrm('dead-letters', 'show', id)).toContain('["secret"]');
    expect(await onCrm('dead-letters', 'retry', id)).toContain('waits again');
    expect(await onCrm('relay', '--once')).toBe('moved 1\n');
  });

  it('exit with 8 and without a stack trace where this user may not write, and the doctor reports where it may not read', async () => {
    const user = `guest_${process.pid}`;
    const guest = new URL(crm.url);
    guest.username = user;
    const env = { GUEST: guest.href };
    project.write(
      'guest.config.mjs',
      'export default { outboxes: { crm: { database: process.env.GUEST } } };',
    );
    const args = ['--outbox', 'crm', '--config', 'guest.config.mjs'];
    await query(crm.url, `create user ${user}; grant select on outlast_migration to ${user}`);
    try {
      const seen = await project.runWith(env, 'doctor', '--json', ...args);
      expect(seen.code).toBe(6);
      expect(seen.stdout).toContain('"permission"');
      await query(crm.url, `grant select on * to ${user}`);
      const relayed = await project.runWith(env, 'relay', '--once', ...args);
      expect(relayed).toMatchObject({ code: 8, stdout: '' });
      // The log has the stack; the final message of the command has none.
      expect(relayed.stderr.slice(relayed.stderr.indexOf('error: '))).not.toContain('    at ');
    } finally {
      await query(crm.url, `drop user ${user}`);
    }
  });

  it('print SQL that a person may apply, and find it applied afterwards', async () => {
    const printed = await onCrm('migrate', '--print');
    expect(printed).toContain('engine = InnoDB');
    const byHand = await withMariadb('by_hand');
    try {
      await query(byHand.url, printed);
      const outboxes = { crm: { database: byHand.url } };
      project.write('by-hand.config.json', JSON.stringify({ outboxes }));
      const ended = await project.run(
        'migrate',
        '--outbox',
        'crm',
        '--config',
        'by-hand.config.json',
      );
      expect(ended.stdout).toBe(`nothing to do: schema version ${VERSION}\n`);
    } finally {
      await byHand.drop();
    }
  });

  it('print it too where MariaDB is the main database', async () => {
    const env = { OUTLAST_DATABASE_URL: crm.url, OUTLAST_BROKER_URL: 'redis://127.0.0.1:1' };
    const ended = await project.runWith(env, 'migrate', '--print');
    expect(ended.stdout).toContain('engine = InnoDB');
  });

  it('refuse MariaDB as the main database without a broker, because it has no ledger', async () => {
    const ended = await project.runWith({ OUTLAST_DATABASE_URL: crm.url }, 'stats', '--json');
    expect(ended.code).toBe(2);
    expect(json<JsonError>(ended.stderr).error.code).toBe('ERR_CONFIG_TIER');
  });
});
