import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { CliProject, json, SHOP, type JsonError } from '../support/cli-project.ts';
import { sendRows } from '../support/outbox-rows.ts';
import { migratedDatabase, type MigratedDatabase } from '../support/database.ts';

let database: MigratedDatabase;
let project: CliProject;

beforeAll(async () => {
  database = await migratedDatabase('cli_tasks');
  project = new CliProject(SHOP, { OUTLAST_DATABASE_URL: database.url });
});

afterAll(async () => {
  await project.dispose();
  await database.dispose();
});

interface SentTask {
  readonly queue: string;
  readonly body: string;
  readonly eta: Date | null;
  readonly waits: boolean;
  readonly span: number | null;
}

/** A task as it was committed: payload to the letter, and the seconds between its eta and its end. */
async function rowOf(id: string): Promise<SentTask | undefined> {
  const { rows } = await database.pool.query<SentTask>(
    `select queue, convert_from(body, 'UTF8') as body, eta,
       due = eta as waits, extract(epoch from expires_at - eta)::float8 as span
     from outlast_task where id = $1`,
    [id],
  );
  return rows[0];
}

/** Puts an ended task into the state that a worker would leave. */
async function plant(
  id: string,
  ending: { result?: string; dead?: string; name?: string; at?: string },
): Promise<void> {
  const { result = null, dead = null, name = 'shop.planted', at = 'now()' } = ending;
  const error =
    dead === null ? null : JSON.stringify({ type: 'Error', message: dead, traceback: 'at x' });
  const history = `{"at":"2026-01-01T00:00:00.000Z","step":"dead","epoch":1,"error":${error}}\n`;
  await database.pool.query(
    `insert into outlast_task (id, name, queue, priority, payload_version, body, options, digest,
       state, ending, result, reason, error, history, ended_at, keep_until)
     values ($1, $2, 'planted', 0, 1, '[[],{"n":1},null]', '{}', 'x', $3::text, $3::text,
       $4::bytea, $5, $6::bytea, $7::bytea, ${at},
       case when $3::text = 'done' then now() + interval '1 day' end)`,
    [
      id,
      name,
      dead === null ? 'done' : 'dead',
      result === null ? null : Buffer.from(result),
      dead === null ? null : 'ERR_ATTEMPTS_SPENT',
      error === null ? null : Buffer.from(error),
      Buffer.from(dead === null ? '' : history),
    ],
  );
}

/** Puts a row into the state that the relay would leave after its last attempt. */
async function plantRelayLetter(id: string, why: string, at: string): Promise<void> {
  await database.pool.query(
    `insert into outlast_dead_letter (task_id, version, task_name, queue, priority, args, kwargs, embed,
       options, digest, schema_version, payload_version, retries, failure_reason, error_history,
       created_at, dead_at)
     values ($1, 1, 'shop.relayed', 'planted', 0, '[1]', '{}', 'null', '{}', 'x', 1, 1, 5, $2, '',
       now(), ${at})`,
    [id, why],
  );
}

// oxlint-disable-next-line no-control-regex -- control characters are what is looked for
const CONTROL = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f]/;

describe('send', () => {
  it('keeps arguments byte for byte', async () => {
    const args = '[1.0, 12345678901234567890, "a\\u0000b\\ud800", 1e400]';
    const kwargs = '{"price": 10.50, "big": -98765432109876543210, "a_b": {"cD": null}}';
    const sent = await project.run('send', 'py.any', '--args', args, '--kwargs', kwargs);
    expect(sent.code).toBe(0);
    expect(sent.stderr).toContain('no handler of this configuration runs py.any');
    const row = await rowOf(sent.stdout.trim());
    expect(row).toMatchObject({ queue: 'default' });
    expect(row?.body.startsWith(`[${args},${kwargs},{`)).toBe(true);
  });

  it('accepts queue, id, countdown and expiry', async () => {
    const flags = ['--queue', 'vip', '--id', 'mine', '--countdown', '600', '--expires', '20m'];
    const sent = await project.run('send', 'shop.order', '--kwargs', '{"orderId":"1"}', ...flags);
    expect(sent).toMatchObject({ code: 0, stdout: 'mine\n', stderr: '' });
    // Both were counted from the same instant.
    expect(await rowOf('mine')).toMatchObject({ queue: 'vip', waits: true, span: 600 });
  });

  it('accepts an instant as eta', async () => {
    const eta = '2999-01-01T00:00:00.000Z';
    const sent = await project.run('send', 'shop.skip', '--eta', eta, '--json');
    const { id, is_new: isNew } = json<{ id: string; is_new: boolean }>(sent.stdout);
    expect(isNew).toBe(true);
    expect((await rowOf(id))?.eta?.toISOString()).toBe(eta);
  });

  it('reports the same id with the same input as the same task, and refuses other input', async () => {
    const send = (orderId: string) =>
      project.run('send', 'shop.echo', '--id', 'twice', '--args', `["${orderId}"]`, '--json');
    expect(json((await send('1')).stdout)).toEqual({ id: 'twice', is_new: true });
    expect(json((await send('1')).stdout)).toEqual({ id: 'twice', is_new: false });
    const refused = await send('2');
    expect(refused).toMatchObject({ code: 2, stdout: '' });
    expect(json<JsonError>(refused.stderr).error.code).toBe('ERR_IDEMPOTENCY_MISMATCH');
  });

  it.concurrent.each([
    [['shop.order', '--args', '{'], 'ERR_INPUT_NOT_JSON', '--args'],
    [['shop.order', '--args', '{}'], 'ERR_INPUT_NOT_JSON', 'not an array'],
    [['shop.order', '--kwargs', '[]'], 'ERR_INPUT_NOT_JSON', 'not an object'],
    [['shop.order', '--kwargs', '{"orderId": 5}'], 'ERR_INPUT_INVALID', 'orderId'],
    [['shop.order', '--args', '[1, 2]'], 'ERR_INPUT_INVALID', '2 positional arguments'],
    [['shop order'], 'ERR_NAME_UNSAFE', 'task name'],
    [['shop.skip', '--id', "x'; drop table outlast_task"], 'ERR_NAME_UNSAFE', 'task id'],
    [['shop.skip', '--queue', 'a b'], 'ERR_NAME_UNSAFE', 'queue'],
    [['shop.skip', '--countdown', 'soon'], 'ERR_OPTION_UNIT', 'countdown'],
    [['shop.skip', '--eta', 'tomorrow'], 'ERR_OPTION_RANGE', 'eta'],
    [['shop.skip', '--eta', '2999-01-01', '--countdown', '5'], 'ERR_OPTIONS_CONFLICT', 'countdown'],
  ] as const)('%j is %s', async (args, code, names) => {
    const ended = await project.run('send', ...args, '--json');
    expect(ended).toMatchObject({ code: 2, stdout: '' });
    const { error } = json<JsonError>(ended.stderr);
    expect(error).toMatchObject({ code, message: expect.stringContaining(names) as string });
    expect(error.hint).not.toBe('');
  });

  it('lists every issue that the schema reports', async () => {
    const args = ['send', 'shop.order', '--kwargs', '{"orderId": 5, "cents": "x"}'];
    const { stderr } = await project.run(...args);
    expect(stderr).toMatch(/orderId[^]*also at `cents`/);
    const issues = json<{ error: { issues: { path: string }[] } }>(
      (await project.run(...args, '--json')).stderr,
    );
    expect(issues.error.issues.map(({ path }) => path)).toEqual(['orderId', 'cents']);
  });

  it('exits even if a module of the user keeps a connection open', async () => {
    const stubborn = new CliProject(
      {
        'outlast.config.mjs': `export default { tasks: ['./handlers.mjs'] };`,
        'handlers.mjs': `setInterval(() => undefined, 60_000); export const none = 1;`,
      },
      { OUTLAST_DATABASE_URL: database.url },
    );
    expect(await stubborn.run('send', 'py.any')).toMatchObject({ code: 0, signal: null });
    await stubborn.dispose();
  });
});

describe('relay', () => {
  it('moves one batch with --once and the rest with --drain, but no row that is not due', async () => {
    await database.pool.query('delete from outlast_outbox');
    // Only rows with an ordering key, or under a rate, wait for a relay where there is no broker.
    await sendRows(database.url, ['r1', 'r2', 'r3']);
    await sendRows(database.url, ['later']);
    const putOff = `update outlast_outbox set available_at = now() + interval '1 h' where task_id = 'later'`;
    await database.pool.query(putOff);
    await project.run('send', 'py.any', '--id', 'straight');
    const once = await project.run('relay', '--once', '--batch-size', '1', '--json');
    expect(once).toMatchObject({ code: 0, stdout: '{"moved":1}\n' });
    const drained = await project.runWith({ OUTLAST_RELAY_BATCH_SIZE: '1' }, 'relay', '--drain');
    expect(drained).toMatchObject({ code: 0, stdout: 'moved 2\n' });
    expect((await project.run('relay', '--drain', '--json')).stdout).toBe('{"moved":0}\n');
    expect((await project.run('result', 'r3')).stdout).toBe('waiting\n');
    expect((await project.run('result', 'later')).stdout).toBe('pending\n');
  });
});

describe('result', () => {
  it('of a task that has not ended exits with 7, also after a wait', async () => {
    await project.run('send', 'py.any', '--id', 'w1');
    const ended = await project.run('result', 'w1', '--wait', '0.1', '--json');
    expect(ended.code).toBe(7);
    expect(json(ended.stdout)).toMatchObject({ id: 'w1', state: 'waiting', result: null });
  });

  it('of an unknown task exits with 3', async () => {
    expect(await project.run('result', 'nobody')).toMatchObject({ code: 3, stdout: 'unknown\n' });
    expect((await project.run('result', 'nobody', '--json')).code).toBe(3);
  });

  it('is found under every id that a worker accepts', async () => {
    await plant('an id with spaces', { result: '1' });
    expect(await project.run('result', 'an id with spaces')).toMatchObject({ stdout: '1\n' });
    expect((await project.run('result', 'two\nlines')).stderr).toContain('ERR_NAME_UNSAFE');
  });

  it('is printed as the handler returned it, with every digit and every key', async () => {
    const result =
      '{"n":12345678901234567890,"f":0.1,"camelCase":{"snake_case":"a\\u0000\\ud800"}}';
    await plant('done-1', { result });
    expect(await project.run('result', 'done-1')).toMatchObject({ code: 0, stdout: `${result}\n` });
    const asJson = await project.run('result', 'done-1', '--json');
    expect(asJson.code).toBe(0);
    expect(asJson.stdout).toContain(`"result":${result},`);
    expect(json(asJson.stdout)).toMatchObject({ id: 'done-1', state: 'done', ending: 'done' });
  });

  it('of a failed task exits with 1 and prints the reason', async () => {
    await plant('dead-1', { dead: 'no such customer' });
    const ended = await project.run('result', 'dead-1');
    expect(ended).toMatchObject({ code: 1, stdout: 'dead: no such customer\n' });
    const { stdout } = await project.run('result', 'dead-1', '--json');
    expect(json(stdout)).toMatchObject({
      state: 'dead',
      why: 'ERR_ATTEMPTS_SPENT',
      error: { type: 'Error', message: 'no such customer' },
    });
  });
});

describe('stats', () => {
  it('counts by state and queue, as a table and as JSON', async () => {
    await database.pool.query('delete from outlast_outbox; delete from outlast_task');
    await project.run('send', 'py.any', '--queue', 'vip', '--id', 's1');
    await sendRows(database.url, ['s2']);
    await plant('s3', { dead: 'x' });
    await plant('s4', { result: '1' });
    await database.pool.query(
      `insert into outlast_chord_part (group_id, place, size, task_id, result) values ('g', 0, 3, 't', '1')`,
    );
    const { code, stdout } = await project.run('stats', '--json');
    expect(code).toBe(0);
    const { oldest_pending_seconds: oldest, ...stats } = json<{ oldest_pending_seconds: number }>(
      stdout,
    );
    expect(oldest).toBeGreaterThan(0);
    expect(stats).toEqual({
      queue_depth: 2,
      scheduled: 0,
      backoff: 0,
      deferred: 0,
      dlq_count: 1,
      dlq: { outbox: 0, worker: 1 },
      left_behind: [],
      outbox: expect.objectContaining({ pending: 1, claimed: 0, sent: 0 }) as object,
      tasks: { waiting: 1, running: 0, done: 1, dead: 1, cancelled: 0, expired: 0, purged: 0 },
      queues: [
        { queue: 'default', pending: 1, waiting: 0, running: 0, is_paused: false, consumers: 0 },
        { queue: 'vip', pending: 0, waiting: 1, running: 0, is_paused: false, consumers: 0 },
      ],
      top_failing: [{ name: 'shop.planted', failures: 1 }],
      totals: [],
      workers: 0,
      chords: {
        open: 1,
        oldest_seconds: expect.any(Number) as number,
        oldest: [expect.objectContaining({ group_id: 'g', parts: 1, size: 3, failed: 0 })],
      },
    });
    const text = (await project.run('stats', '--top', '0')).stdout;
    expect(text).toContain('waiting 1  running 0  done 1  dead 1');
    expect(text).toMatch(/^vip +0 +1 +0 +false +0$/m);
    expect(text).not.toContain('shop.planted');
    expect(text).toMatch(/^chords +open 1 +oldest \d+\.\d s$/m);
  });

  it('ends without an error when its reader has closed the pipe', async () => {
    const started = project.start(['stats', '--json']);
    started.child.stdout?.destroy();
    expect(await started.ended).toMatchObject({ code: 0, stderr: '' });
  });
});

describe('dead letters', () => {
  beforeAll(async () => {
    await database.pool.query('delete from outlast_task');
    // Three of one instant: pages must not lose any of them.
    const at = "timestamptz '2026-01-01 00:00:00.123456Z'";
    for (const id of ['d1', 'd2']) await plant(id, { dead: `why ${id}`, at });
    await plantRelayLetter('d3', 'why d3', at);
    await plantRelayLetter('d0', 'oldest', "timestamptz '2025-01-01Z'");
    await plant('d4', { dead: 'newest \u001b[31mred\u0007\u009b2J\nnext', at: 'now()' });
  });

  interface Page {
    readonly items: readonly { readonly id: string; readonly where: string }[];
    readonly next: string | null;
  }

  it('of both kinds are listed in pages, newest first, each exactly once', async () => {
    const seen: string[] = [];
    let cursor: readonly string[] = [];
    for (;;) {
      const args = ['list', '--limit', '2', ...cursor, '--json'];
      const { code, stdout } = await project.run('dead-letters', ...args);
      expect(code).toBe(0);
      const { items, next } = json<Page>(stdout);
      seen.push(...items.map(({ id, where }) => `${id} ${where}`));
      if (next === null) break;
      cursor = ['--cursor', next];
    }
    expect(seen).toEqual(['d4 worker', 'd3 relay', 'd2 worker', 'd1 worker', 'd0 relay']);
  });

  it('are a table for terminals, with the cursor of the next page', async () => {
    const { code, stdout, stderr } = await project.run('dead-letters', 'list', '--limit', '2');
    expect(code).toBe(0);
    expect(stdout).toMatch(/^ID +NAME +QUEUE +WHERE +REASON +DEAD_AT +ERROR\nd4 /);
    expect(stdout.trimEnd().split('\n')).toHaveLength(3);
    expect(stderr).toContain("more: --cursor '2026-01-01T00:00:00.123456Z d3'");
  });

  it('refuse a cursor that no page returned', async () => {
    for (const cursor of ['junk', '2026-99-01T00:00:00Z x', "2026-01-01T00:00:00Z'; drop table"]) {
      const ended = await project.run('dead-letters', 'list', '--cursor', cursor, '--json');
      expect(ended).toMatchObject({ code: 2, stdout: '' });
      expect(json<JsonError>(ended.stderr).error.code).toBe('ERR_OPTION_RANGE');
    }
  });

  it('are shown with their bytes, reason and history', async () => {
    const { code, stdout } = await project.run('dead-letters', 'show', 'd1', '--json');
    expect(code).toBe(0);
    const letter = json<{ body: string }>(stdout);
    expect(letter).toMatchObject({
      id: 'd1',
      where: 'worker',
      reason: 'ERR_ATTEMPTS_SPENT',
      error: 'why d1',
      dead_at: '2026-01-01T00:00:00.123456Z',
      body_text: '[[],{"n":1},null]',
      history: [{ step: 'dead', epoch: 1, error: { type: 'Error', message: 'why d1' } }],
    });
    expect(Buffer.from(letter.body, 'base64').toString()).toBe('[[],{"n":1},null]');
    const text = (await project.run('dead-letters', 'show', 'd3')).stdout;
    expect(text).toContain('where    relay');
    expect(text).toContain('payload  [[1],{},null]');
    expect(text).toContain('error    why d3');
  });

  it('never send their control characters to a terminal', async () => {
    const commands = [
      ['dead-letters', 'list'],
      ['dead-letters', 'list', '--json'],
      ['dead-letters', 'show', 'd4'],
      ['dead-letters', 'show', 'd4', '--json'],
      ['result', 'd4'],
      ['result', 'd4', '--json'],
    ];
    const all = await Promise.all(commands.map(command => project.run(...command)));
    for (const { stdout, stderr } of all) {
      expect(stdout).toContain('newest');
      expect(`${stdout}${stderr}`).not.toMatch(CONTROL);
    }
    const { error } = json<{ error: string }>(all[3]?.stdout ?? '');
    expect(error).toBe('newest \u001b[31mred\u0007\u009b2J\nnext');
  });

  it('are retried once, each in the store where it died', async () => {
    const back = await project.run('dead-letters', 'retry', 'd1', 'd3', '--json');
    expect(back.code).toBe(0);
    expect(json(back.stdout)).toEqual({
      items: [
        { id: 'd1', status: 'ok' },
        { id: 'd3', status: 'ok' },
      ],
    });
    expect((await project.run('result', 'd1')).stdout).toBe('waiting\n');
    expect((await project.run('result', 'd3')).stdout).toBe('pending\n');
    expect(await project.run('dead-letters', 'retry', 'd1')).toMatchObject({ code: 4 });
    expect(await project.run('dead-letters', 'retry', 'd3')).toMatchObject({ code: 4 });
    const partly = await project.run('dead-letters', 'retry', 'd2', 'd1', 'nobody');
    expect(partly).toMatchObject({ code: 7 });
    expect(partly.stdout).toBe('d2 waits again\nd1 is not dead (any more)\nnobody is not known\n');
  });

  it('that do not exist exit with 3', async () => {
    const retried = await project.run('dead-letters', 'retry', 'nobody');
    expect(retried).toMatchObject({ code: 3, stdout: 'nobody is not known\n' });
    const shown = await project.run('dead-letters', 'show', 'nobody', '--json');
    expect(shown).toMatchObject({ code: 3, stdout: '' });
    expect(json<JsonError>(shown.stderr).error.message).toBe('no dead letter nobody');
  });
});
